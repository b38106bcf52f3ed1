// depthwise_weight: part[s][t][c] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][oh][ow][c] x[n][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw DIL_W][c]
// x f32 [N][IN_H][IN_W][C], dy f32 [N][OUT_H][OUT_W][C], part f32 [chunks][KH KW][C]; part may overlap
// no other operand.  V must divide C, TAPS must divide KW.
// TAPS taps side by side are summed at a time; their sums rest in part between two rows of dy, so that
// a row of pictures is read while it is in the cache for all channels and taps.
// Item = VECTORS vectors of V channels, LINES lines of the kernel, one chunk of ROWS rows.
// Local memory: none.  Work-group: 1.
#ifndef V
#define V 4
#define TAPS 1
#endif
#define FLOATS VEC(float, V)
#define BEGIN(r, t) FLOATS s##t = LOAD_V(0, to + t * deep), z##t = 0.0f;
#define ADD(r, t) s##t = fma(d, LOAD_V(0, x + x_at + at + t * next), s##t);
#define ADD_TOO(r, t) z##t = fma(e, LOAD_V(0, x + x_at + at + in_step + t * next), z##t);
#define ADD_INSIDE(r, t) if (left + t * DIL_W >= 0 && left + t * DIL_W < IN_W) { ADD(r, t) }
#define END(r, t) STORE_V(s##t + z##t, 0, to + t * deep);
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_weight(__global const float *dy, const uint dy_at,
                      __global const float *x, const uint x_at,
                      __global float *part, const uint part_at, const int N, const int C,
                      const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                      const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
                      const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W,
                      const int ROWS, const int VECTORS, const int LINES) {
    const long deep = C, chunk = get_global_id(2), next = DIL_W * deep, in_step = STRIDE_W * deep;
    const int begin = get_global_id(0) * VECTORS * V, end = min(begin + VECTORS * V, C);
    const int above = get_global_id(1) * LINES, below = min(above + LINES, KH);
    const int last = min((int)(chunk + 1) * ROWS, N * OUT_H);
    __global float *sums = part + part_at + chunk * KH * KW * deep;
    for (int t = above * KW; t < below * KW; ++t)
        for (int c = begin; c < end; c += V) STORE_V((FLOATS)0.0f, 0, sums + t * deep + c);
    for (int row = chunk * ROWS; row < last; ++row) {
        for (int c = begin; c < end; c += V) {
            __global const float *b = dy + dy_at + (long)row * OUT_W * deep + c;
            for (int kh = above; kh < below; ++kh) {
                const int h = row % OUT_H * STRIDE_H - PAD_H + kh * DIL_H;
                if (h < 0 || h >= IN_H) continue;
                for (int kw = 0; kw < KW; kw += TAPS) {
                    __global float *to = sums + (kh * KW + kw) * deep + c;
                    int left = kw * DIL_W - PAD_W, ow = 0;
                    // In whole numbers, since a tap may point in front of the row.
                    long at = (((long)(row / OUT_H) * IN_H + h) * IN_W + left) * deep + c;
                    EACH_COL(TAPS, BEGIN, 0)
                    while (ow < OUT_W) {
                        const int right = left + (TAPS - 1) * DIL_W;
                        const FLOATS d = LOAD_V(0, b + ow * deep);
                        if (left >= 0 && right + STRIDE_W < IN_W && ow + 1 < OUT_W) {
                            const FLOATS e = LOAD_V(0, b + (ow + 1) * deep);
                            EACH_COL(TAPS, ADD, 0)
                            EACH_COL(TAPS, ADD_TOO, 0)
                            ow += 2, left += 2 * STRIDE_W, at += 2 * in_step;
                        } else {
                            EACH_COL(TAPS, ADD_INSIDE, 0)
                            ++ow, left += STRIDE_W, at += in_step;
                        }
                    }
                    EACH_COL(TAPS, END, 0)
                }
            }
        }
    }
}

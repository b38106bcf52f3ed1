// depthwise_weight: part[s][t][c] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][oh][ow][c] x[n][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw DIL_W][c]
// x f32 [N][IN_H][IN_W][C], dy f32 [N][OUT_H][OUT_W][C], part f32 [chunks][KH KW][C]; part may overlap
// no other operand.  V must divide C, TAPS must divide KW.
// R pixels of a row of dy at a time meet TAPS taps side by side, whose sums rest in part meanwhile: all
// channels of these pixels go by in the order in which they lie, and what two pixels look at is
// loaded once. STEP and AWAY are STRIDE_W and DIL_W. At the edges pixels go one by one.
// Item = VECTORS vectors of V channels, LINES lines of the kernel, one chunk of ROWS rows.
// Local memory: none.  Work-group: 1.
#ifndef V
#define V 4
#define TAPS 1
#define R 4
#define STEP 1
#define AWAY 1
#endif
#define FLOATS VEC(float, V)
#define BEGIN(r, t) FLOATS s##t = LOAD_V(0, to + t * deep);
#define PIXEL(r) const FLOATS d##r = LOAD_V(0, b + r * deep);
#define MEET(r) EACH_COL(TAPS, ADD, r)
#define ADD(r, t) s##t = fma(d##r, LOAD_V(0, xs + at + (r * STEP + t * AWAY) * deep), s##t);
#define ADD_INSIDE(r, t) if (left + t * AWAY >= 0 && left + t * AWAY < IN_W) { ADD(0, t) }
// In whole numbers, since a tap may point in front of the row.
#define EACH_TAP(BODY) \
    for (int kh = above; kh < below; ++kh) { \
        const int h = high + kh * DIL_H; \
        if (h < 0 || h >= IN_H) continue; \
        for (int kw = 0; kw < KW; kw += TAPS) { \
            const int left = first + kw * AWAY; \
            const long at = (((long)(row / OUT_H) * IN_H + h) * IN_W + left) * deep + c; \
            __global float *to = sums + (kh * KW + kw) * deep + c; \
            EACH_COL(TAPS, BEGIN, 0) \
            BODY \
            EACH_COL(TAPS, END, 0) \
        } \
    }
#define END(r, t) STORE_V(s##t, 0, to + t * deep);
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_weight(__global const float *dy, const uint dy_at,
                      __global const float *x, const uint x_at,
                      __global float *part, const uint part_at, const int N, const int C,
                      const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                      const int KH, const int KW, const int STRIDE_H,
                      const int PAD_H, const int PAD_W, const int DIL_H,
                      const int ROWS, const int VECTORS, const int LINES) {
    const long deep = C, chunk = get_global_id(2);
    const int begin = get_global_id(0) * VECTORS * V, end = min(begin + VECTORS * V, C);
    const int above = get_global_id(1) * LINES, below = min(above + LINES, KH);
    const int last = min((int)(chunk + 1) * ROWS, N * OUT_H);
    __global float *sums = part + part_at + chunk * KH * KW * deep;
    for (int t = above * KW; t < below * KW; ++t)
        for (int c = begin; c < end; c += V) STORE_V((FLOATS)0.0f, 0, sums + t * deep + c);
    __global const float *xs = x + x_at;
    for (int row = chunk * ROWS; row < last; ++row) {
        const int high = row % OUT_H * STRIDE_H - PAD_H;
        for (int ow = 0, many; ow < OUT_W; ow += many) {
            const int first = ow * STEP - PAD_W;
            many = first >= 0 && ow + R <= OUT_W && first + (R - 1) * STEP + (KW - 1) * AWAY < IN_W ? R : 1;
            for (int c = begin; c < end; c += V) {
                __global const float *b = dy + dy_at + ((long)row * OUT_W + ow) * deep + c;
                if (many == R) {
                    EACH_ROW(R, PIXEL)
                    EACH_TAP({ EACH_ROW(R, MEET) })
                } else {
                    PIXEL(0)
                    EACH_TAP({ EACH_COL(TAPS, ADD_INSIDE, 0) })
                }
            }
        }
    }
}

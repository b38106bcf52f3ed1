// depthwise_weight: part[s][t][c] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][oh][ow][c] x[n][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw AWAY][c]
// x f32 [N][IN_H][IN_W][C], dy f32 [N][OUT_H][OUT_W][C], part f32 [chunks][KH KW][C]; part may overlap
// no other operand.  TAPS must divide KW; W = NV V <= C.
// TAPS taps side by side, W channels each, have their sums in registers while all pixels of the chunk go
// by, once for each such run of taps. At the edges each tap is asked whether it is inside.
// Item = W channels, LINES lines of the kernel, one chunk of ROWS rows. The last block of channels is moved
// left until it ends at C, and stores only those that no other item owns.
// Local memory: none.  Work-group: 1.
#ifndef V
#define V 4
#define NV 1
#define TAPS 1
#define AWAY 1
#endif
#define W (NV * V)
#define FLOATS VEC(float, V)
#define START(t) EACH_COL(NV, ZERO, t)
#define ZERO(t, v) FLOATS s##t##_##v = 0.0f;
#define LOAD(t, v) const FLOATS d##v = LOAD_V(v, dys + (at_dy + ow * deep));
#define MEET(t) EACH_COL(NV, ADD, t)
// In whole numbers, since a tap may point in front of the row.
#define ADD(t, v) s##t##_##v = fma(d##v, LOAD_V(v, xs + (at_x + (left + t * AWAY) * deep)), s##t##_##v);
#define MEET_INSIDE(t) if (left + t * AWAY >= 0 && left + t * AWAY < IN_W) { MEET(t) }
#define STORE_TAP(t) EACH_COL(NV, STORE, t)
#define STORE(t, v) if (v * V >= skip) { \
        STORE_V(s##t##_##v, v, to + t * deep); \
    } else if ((v + 1) * V > skip) { \
        float lanes[V]; \
        STORE_V(s##t##_##v, 0, lanes); \
        for (int l = skip - v * V; l < V; ++l) to[t * deep + v * V + l] = lanes[l]; \
    }
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_weight(__global const float *dy, const uint dy_at,
                      __global const float *x, const uint x_at,
                      __global float *part, const uint part_at, const int N, const int C,
                      const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                      const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
                      const int PAD_H, const int PAD_W, const int DIL_H,
                      const int ROWS, const int LINES) {
    const long deep = C, chunk = get_global_id(2);
    const int own = get_global_id(0) * W, first = min(own, C - W), skip = own - first;
    const int above = get_global_id(1) * LINES, below = min(above + LINES, KH);
    const int begin = chunk * ROWS, end = min(begin + ROWS, N * OUT_H);
    __global const float *dys = dy + dy_at + first, *xs = x + x_at + first;
    for (int tap = above * KW; tap < below * KW; tap += TAPS) {
        const int off_h = tap / KW * DIL_H - PAD_H, off_w = tap % KW * AWAY - PAD_W;
        const int most = IN_W - 1 - (TAPS - 1) * AWAY - off_w;  // where the last tap still is inside
        const int low = max(-off_w + STRIDE_W - 1, 0) / STRIDE_W;
        const int high = most < 0 ? 0 : most / STRIDE_W + 1;
        EACH_ROW(TAPS, START)
        for (int row = begin; row < end; ++row) {
            const int h = row % OUT_H * STRIDE_H + off_h;
            if (h < 0 || h >= IN_H) continue;
            const long at_dy = (long)row * OUT_W * deep, at_x = ((long)(row / OUT_H) * IN_H + h) * IN_W * deep;
            for (int ow = 0; ow < OUT_W; ++ow) {
                const long left = ow * STRIDE_W + off_w;
                EACH_COL(NV, LOAD, 0)
                if (ow >= low && ow < high) {
                    EACH_ROW(TAPS, MEET)
                } else {
                    EACH_ROW(TAPS, MEET_INSIDE)
                }
            }
        }
        __global float *to = part + part_at + (chunk * KH * KW + tap) * deep + first;
        EACH_ROW(TAPS, STORE_TAP)
    }
}

// depthwise_weight: part[s][t][c] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][oh][ow][c] x[n][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw AWAY][c]
// x f32 [N][IN_H][IN_W][C], dy f32 [N][OUT_H][OUT_W][C], part f32 [chunks][KH KW][C]; part may overlap
// no other operand.  TAPS must divide KW; W = NV V <= C; SUMS = DOWN TAPS.
// DOWN lines of TAPS taps side by side, W channels each, have their sums in registers while all pixels of a
// chunk go by, once for each such block of taps: the lines of x that a row of dy meets are still in the nearest
// cache for the next row. At the edges each tap is asked whether it is inside. FAR: the next row of both
// pictures is asked for ahead.
// Item = W channels, LINES lines of the kernel, one chunk of ROWS rows. The last block of channels is moved
// left until it ends at C, and stores only those that no other item owns.
// Local memory: none.  Work-group: 1.
#ifndef V
#define V 4
#define NV 1
#define TAPS 1
#define DOWN 1
#define SUMS 1
#define AWAY 1
#endif
#define W (NV * V)
#define FLOATS VEC(float, V)
#define START(t) EACH_COL(NV, ZERO, t)
#define ZERO(t, v) FLOATS s##t##_##v = 0.0f;
#define LOAD(t, v) const FLOATS d##v = LOAD_V(v, dys + (at_dy + ow * deep));
#define FETCH(t, v) AHEAD(dys + (at_dy + (ow + OUT_W) * deep + v * V)); AHEAD(xs + (at + DOWN * line + v * V));
#define MEET(t) EACH_COL(NV, ADD, t)
#define ADD(t, v) s##t##_##v = fma(d##v, LOAD_V(v, xs + (at + t / TAPS * line + t % TAPS * away)), s##t##_##v);
#define MEET_INSIDE(t) if (inside >> t & 1) { MEET(t) }
#define BESIDE(k) | ((uint)(left + k * AWAY) < (uint)IN_W) << k
#define BELOW(l) | (kh + l < below && (uint)(h + l * DIL_H) < (uint)IN_H ? EVERY(TAPS) << l * TAPS : 0)
#define SAME(l) | beside << l * TAPS
#define EVERY(n) ((1u << (n)) - 1)
#define STORE_TAP(t) if (kh + t / TAPS < below) { \
        __global float *to = parts + ((kh + t / TAPS) * KW + kw + t % TAPS) * deep; \
        EACH_COL(NV, STORE, t) \
    }
#define STORE(t, v) if (v * V >= skip) { \
        STORE_V(s##t##_##v, v, to); \
    } else if ((v + 1) * V > skip) { \
        float lanes[V]; \
        STORE_V(s##t##_##v, 0, lanes); \
        for (int l = skip - v * V; l < V; ++l) to[v * V + l] = lanes[l]; \
    }
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_weight(__global const float *dy, const uint dy_at,
                      __global const float *x, const uint x_at,
                      __global float *part, const uint part_at, const int N, const int C,
                      const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                      const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
                      const int PAD_H, const int PAD_W, const int DIL_H,
                      const int ROWS, const int LINES, const int FAR) {
    const long deep = C, away = AWAY * deep, line = (long)DIL_H * IN_W * deep, chunk = get_global_id(2);
    const int above = get_global_id(1) * LINES, below = min(above + LINES, KH);
    const int begin = chunk * ROWS, end = min(begin + ROWS, N * OUT_H);
    const int own = get_global_id(0) * W, first = min(own, C - W), skip = own - first;
    __global const float *dys = dy + dy_at + first, *xs = x + x_at + first;
    __global float *parts = part + part_at + chunk * KH * KW * deep + first;
    for (int kh = above; kh < below; kh += DOWN) for (int kw = 0; kw < KW; kw += TAPS) {
        const int off_h = kh * DIL_H - PAD_H, off_w = kw * AWAY - PAD_W;
        EACH_ROW(SUMS, START)
        long picture = begin / OUT_H, oh = begin % OUT_H;
        for (long row = begin; row < end; ++row, ++oh) {
            if (oh == OUT_H) { oh = 0; ++picture; }
            const int h = oh * STRIDE_H + off_h;
            const uint lines = 0 EACH_ROW(DOWN, BELOW);
            if (!lines) continue;
            // In whole numbers, since a tap may point in front of the row.
            const long at_dy = row * OUT_W * deep, at_x = (picture * IN_H + h) * IN_W * deep;
            for (int ow = 0; ow < OUT_W; ++ow) {
                const int left = ow * STRIDE_W + off_w;
                const long at = at_x + left * deep;
                const uint beside = 0 EACH_ROW(TAPS, BESIDE), inside = lines & (0 EACH_ROW(DOWN, SAME));
                EACH_COL(NV, LOAD, 0)
                if (FAR) { EACH_COL(NV, FETCH, 0) }
                if (inside == EVERY(SUMS)) {
                    EACH_ROW(SUMS, MEET)
                } else {
                    EACH_ROW(SUMS, MEET_INSIDE)
                }
            }
        }
        EACH_ROW(SUMS, STORE_TAP)
    }
}

// winograd_pack: y[p][4 i + j][b][l] = (G w G^T)[i][j] of the 3 x 3 taps w of channels b and p W + l; 0 for
// lanes beyond LANES.  G = (1 0 0, 1/2 1/2 1/2, 1/2 -1/2 1/2, 0 0 1).
// x f32: taps [9][B][LANES], or with TURNED [9][LANES][B], the last tap first: a gradient of x slides the
// other way. y f32 [PANELS][16][B][W]; y may not overlap x. V divides LANES, 16 divides B and LANES
// where TURNED (then V is 16).
// Item = one panel, RUN values of b; TURNED: squares of 16 x 16 are turned in registers.
// Local memory: none.  Work-group: 1.
#ifndef W
#define W 8
#define V 4
#define TURNED 0
#endif
#define FLOATS VEC(float, V)
#define TAP(t) const FLOATS g##t = LOAD_V(0, from + ((TURNED ? 8 - t : t) * square));
// One column of G w, of the taps that lie in it.
#define COLUMN(j, a, b, c) const FLOATS r0##j = a, r3##j = c, e##j = 0.5f * (a + c), h##j = 0.5f * b, \
    r1##j = e##j + h##j, r2##j = e##j - h##j;
// Of row i of G w G^T what goes to its four places.
#define ROW(i) { const FLOATS even = 0.5f * (r##i##0 + r##i##2), odd = 0.5f * r##i##1; \
    PUT(4 * i, r##i##0) PUT(4 * i + 1, even + odd) PUT(4 * i + 2, even - odd) PUT(4 * i + 3, r##i##2) }
#define TRANSFORMED \
    EACH_ROW(9, TAP) COLUMN(0, g0, g3, g6) COLUMN(1, g1, g4, g7) COLUMN(2, g2, g5, g8) EACH_ROW(4, ROW)
#if TURNED
#define PUT(t, v) STORE_V(v, (t) * 16 + l, lines);
#define TAKE(r) const float16 a##r = vload16(16 * t + r, lines);
#define GIVE(r) vstore16(c##r, 0, to + (t * depth + r) * W);
#else
#define PUT(t, v) STORE_V(v, 0, to + (t) * depth * W);
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void winograd_pack(__global const float *x, const uint x_at, __global float *y, const uint y_at,
                   const int LANES, const int B, const int RUN) {
    const size_t panel = get_global_id(0), first = get_global_id(1) * RUN, depth = B, lanes = LANES;
    const size_t used = min((size_t)W, lanes - panel * W), end = min(first + RUN, depth);
    const size_t square = lanes * depth;
    __global float *own = y + y_at + panel * 16 * depth * W;
    if (used < W)
        for (size_t t = 0; t < 16; ++t)
            for (size_t b = first; b < end; ++b)
                for (size_t l = used; l < W; ++l) own[(t * depth + b) * W + l] = 0.0f;
#if TURNED
    float lines[16 * 16 * 16] __attribute__((aligned(64)));
    for (size_t at = 0; at < used; at += 16) {
        for (size_t b = first; b < end; b += 16) {
            for (size_t l = 0; l < 16; ++l) {
                __global const float *from = x + x_at + (panel * W + at + l) * depth + b;
                TRANSFORMED
            }
            __global float *to = own + b * W + at;
            for (size_t t = 0; t < 16; ++t) {
                EACH_ROW(16, TAKE)
                TURN16(a, c)
                EACH_ROW(16, GIVE)
            }
        }
    }
#else
    for (size_t b = first; b < end; ++b) {
        for (size_t l = 0; l < used; l += V) {
            __global const float *from = x + x_at + b * lanes + panel * W + l;
            __global float *to = own + b * W + l;
            TRANSFORMED
        }
    }
#endif
}

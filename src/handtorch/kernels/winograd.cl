// winograd: y = f(conv(x, w)) for 3 x 3 taps one pixel apart, by Winograd's F(2 x 2, 3 x 3): the 2 x 2 pixels of
// a tile of y are A^T m A; m[i][j], 4 x 4, sums (B^T d B)[i][j] (G w G^T)[i][j] over the channels, d being the
// 4 x 4 pixels of x that the tile sees: 16 multiplications for 36.
//   B^T = (1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1), A^T = (1 1 1 0, 0 1 -1 -1); f: EPILOGUE of unroll.h.
// x f32 [N][IN_H][IN_W][INNER], pixel (h, w) of y seeing x from (h - PAD_H, w - PAD_W) on, 0 outside.
// w f32: panels of winograd_pack [panels][16][INNER][W], W = NV V.
// y, more, mask f32 [N][OUT_H][OUT_W][OUTER]; y may overlap no operand; bias f32 [OUTER].
// room f32: 16 (TILES (INNER + 16 + W) + 16) for each item, its own. VX divides INNER.
// Item = each ITEMS-th block of TILES tiles, TILES a multiple of R, and each of so many panels: B^T d B of a block
// goes to `room`, 16 apart rows so that few share a place in a cache, then m of a panel, then y. Both
// rest in a core's cache meanwhile.
// Local memory: none.  Work-group: one item.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define VX 4
#define BIAS 0
#define MORE 0
#define ACT 0
#define MASK 0
#endif
#define W (NV * V)
#define FLOATS VEC(float, V)
#define LINE 16                        // floats of a cache line
// The products.
#define ROW(r) __global const float *p##r = seen + min(row + r, used - 1) * pitch; EACH_COL(NV, ZERO, r)
#define ZERO(r, v) FLOATS c##r##_##v = 0.0f;
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b + c * W);
#define MULTIPLY(r) { const FLOATS a = p##r[c]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#define ONE { EACH_COL(NV, LOAD, 0) EACH_ROW(R, MULTIPLY) }
#define KEEP_ROW(r) EACH_COL(NV, KEEP_SUM, r)
#define KEEP_SUM(r, v) STORE_V(c##r##_##v, v, sums + r * W);
// A^T m A of V channels of a tile.
#define SUM(i) EACH_COL(4, SUM_AT, i)
#define SUM_AT(i, j) const FLOATS m##i##j = LOAD_V(0, m + (4 * i + j) * plane_sums);
#define UP(j) const FLOATS u0##j = m0##j + m1##j + m2##j, u1##j = m1##j - m2##j - m3##j;
#define STORE(i, j, value) if (h + i < OUT_H && v + j < OUT_W) { \
        const size_t place = ((n * OUT_H + h + i) * OUT_W + v + j) * outer + channel; \
        if (whole) { \
            FLOATS s = value; \
            EPILOGUE(FLOATS, LOAD_V, channel, place) \
            STORE_V(s, 0, y + y_at + place); \
        } else { \
            STORE_V(value, 0, lanes); \
            for (size_t e = 0; channel + e < outer; ++e) { \
                float s = lanes[e]; \
                EPILOGUE(float, vload1, channel + e, place + e) \
                y[y_at + place + e] = s; } } }
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void winograd(__global const float *x, const uint x_at, __global const float *w, const uint w_at,
              __global float *room, const uint room_at, __global float *y, const uint y_at,
              EPILOGUE_GIVEN
              const int N, const int INNER, const int OUTER, const int IN_H, const int IN_W,
              const int OUT_H, const int OUT_W, const int PAD_H, const int PAD_W, const int TILES,
              const int PANELS) {
    const size_t inner = INNER, outer = OUTER, tiles_in = TILES, pitch = inner + LINE, plane = tiles_in * pitch;
    const size_t plane_sums = tiles_in * W + LINE;
    const size_t high = (OUT_H + 1) / 2, broad = (OUT_W + 1) / 2, tiles = N * high * broad;
    const size_t panels = (outer + W - 1) / W, first = get_global_id(1) * PANELS;
    const size_t last = min(first + PANELS, panels);
    const size_t item = get_global_id(1) * get_global_size(0) + get_global_id(0);
    __global const float *from = x + x_at;
    __global float *seen_all = room + room_at + item * 16 * (plane + plane_sums);
    __global float *sums_all = seen_all + 16 * plane;
    for (size_t block = get_global_id(0) * tiles_in; block < tiles; block += get_global_size(0) * tiles_in) {
        const size_t used = min(tiles_in, tiles - block);
        for (size_t k = 0; k < used; ++k) {
            const size_t tile = block + k, base = tile / (high * broad) * IN_H;
            const int top = (int)(tile / broad % high) * 2 - PAD_H, left = (int)(tile % broad) * 2 - PAD_W;
            WINOGRAD_TILE
            __global float *to = seen_all + k * pitch;
            for (size_t c = 0; c < inner; c += VX) {
                WINOGRAD_SEEN(to + c, plane)
            }
        }
        for (size_t panel = first; panel < last; ++panel) {
            for (size_t t = 0; t < 16; ++t) {
                __global const float *b = w + w_at + (panel * 16 + t) * inner * W, *seen = seen_all + t * plane;
                for (size_t row = 0; row < used; row += R) {
                    EACH_ROW(R, ROW)
                    size_t c = 0;
                    for (; c + 1 < inner; ++c) { ONE ++c; ONE }
                    if (c < inner) ONE
                    __global float *sums = sums_all + t * plane_sums + row * W;
                    EACH_ROW(R, KEEP_ROW)
                }
            }
            for (size_t k = 0; k < used; ++k) {
                const size_t tile = block + k, n = tile / (high * broad);
                const int h = (int)(tile / broad % high) * 2, v = (int)(tile % broad) * 2;
                for (size_t l = 0; l < W && panel * W + l < outer; l += V) {
                    const size_t channel = panel * W + l;
                    const bool whole = channel + V <= outer;
                    __global const float *m = sums_all + k * W + l;
                    float lanes[V];
                    EACH_ROW(4, SUM)
                    EACH_ROW(4, UP)
                    STORE(0, 0, u00 + u01 + u02)
                    STORE(0, 1, u01 - u02 - u03)
                    STORE(1, 0, u10 + u11 + u12)
                    STORE(1, 1, u11 - u12 - u13)
                }
            }
        }
    }
}

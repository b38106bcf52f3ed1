// winograd_weight: part[s][3 kh + kw][c][o] = sum over the pixels n, oh, ow of chunk s of
//   dy[n][oh][ow][o] x[n][oh - PAD_H + kh][ow - PAD_W + kw][c], nothing where that lies outside of x,
// by Winograd's F(3 x 3, 2 x 2): tiles of 2 x 2 pixels of dy, d the 4 x 4 of x that such a tile meets, and
//   part = G^T m G, m[i][j] the sum over the tiles of (B^T d B)[i][j] (A dy A^T)[i][j], 4 x 4:
// 16 multiplications for 36.  A = (1 0, 1 1, 1 -1, 0 -1), G^T = (1 1/2 1/2 0, 0 1/2 -1/2 0, 0 1/2 1/2 1), B^T as
// in winograd.cl.
// x f32 [N][IN_H][IN_W][INNER], dy f32 [N][OUT_H][OUT_W][OUTER], part f32 [chunks][9][INNER][OUTER]; part
// may overlap no other operand.  VX and R divide ROWS and INNER; V divides OUTER.
// room f32: 16 (ROWS COLUMNS + TILES (ROWS + COLUMNS) + 48) for each item, its own; all of it rests in its cache.
// Item = each ITEMS-th part of the work: ROWS channels of x, COLUMNS (a multiple of W = NV V) of dy, and a chunk
// of CHUNK tiles, TILES of them at a time.  Each sum has one order.
// Local memory: none.  Work-group: one item.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define VX 4
#endif
#define W (NV * V)
#define FLOATS VEC(float, V)
#define LINE 16                        // floats of a cache line
// A dy A^T of a tile; what is outside is 0.
#define GIVEN(i, j) (h + i < OUT_H && v + j < OUT_W ? LOAD_V(0, dy + dy_at \
    + ((n * OUT_H + h + i) * OUT_W + v + j) * outer + first_column + l) : (FLOATS)0.0f)
#define TWO(i, a, b) PUT(4 * i, a) PUT(4 * i + 1, a + b) PUT(4 * i + 2, a - b) PUT(4 * i + 3, -b)
#define PUT(t, value) STORE_V(value, 0, to + (t) * plane_dy);
// The products.
#define ZERO_ROW(r) EACH_COL(NV, ZERO, r)
#define ZERO(r, v) c##r##_##v = 0.0f;
#define OLD_ROW(r) EACH_COL(NV, OLD, r)
#define OLD(r, v) c##r##_##v = LOAD_V(v, sums + r * columns);
#define SUMS_OF(r) EACH_COL(NV, NAME, r)
#define NAME(r, v) FLOATS c##r##_##v;
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b + k * W);
#define MULTIPLY(r) { const FLOATS a = p[k * rows + r]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#define KEEP_ROW(r) EACH_COL(NV, KEEP_SUM, r)
#define KEEP_SUM(r, v) STORE_V(c##r##_##v, v, sums + r * columns);
// G^T m G of V columns of a row.
#define SUM(i) EACH_COL(4, SUM_AT, i)
#define SUM_AT(i, j) const FLOATS m##i##j = LOAD_V(0, m + (4 * i + j) * plane_sums);
#define UP(j) const FLOATS e##j = 0.5f * (m1##j + m2##j), g0##j = m0##j + e##j, \
    g1##j = 0.5f * (m1##j - m2##j), g2##j = e##j + m3##j;
#define TAPS(i) { const FLOATS e = 0.5f * (g##i##1 + g##i##2); STORE_V(g##i##0 + e, 0, to + 3 * i * square); \
    STORE_V(0.5f * (g##i##1 - g##i##2), 0, to + (3 * i + 1) * square); \
    STORE_V(e + g##i##3, 0, to + (3 * i + 2) * square); }
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void winograd_weight(__global const float *dy, const uint dy_at, __global const float *x, const uint x_at,
                     __global float *room, const uint room_at, __global float *part, const uint part_at,
                     const int N, const int INNER, const int OUTER, const int IN_H, const int IN_W,
                     const int OUT_H, const int OUT_W, const int PAD_H, const int PAD_W,
                     const int ROWS, const int COLUMNS, const int TILES, const int CHUNK) {
    const size_t inner = INNER, outer = OUTER, rows = ROWS, columns = COLUMNS, deep = TILES;
    const size_t high = (OUT_H + 1) / 2, broad = (OUT_W + 1) / 2, tiles = N * high * broad;
    const size_t row_blocks = (inner + rows - 1) / rows, column_blocks = (outer + columns - 1) / columns;
    const size_t square = inner * outer, chunks = (tiles + CHUNK - 1) / CHUNK;
    __global const float *from = x + x_at;
    // A line apart, or the same places of all planes would share one place in a cache.
    const size_t plane = deep * rows + LINE, plane_dy = deep * columns + LINE, plane_sums = rows * columns + LINE;
    __global float *xs = room + room_at + get_global_id(0) * 16 * (plane + plane_dy + plane_sums);
    __global float *dys = xs + 16 * plane, *sums_all = dys + 16 * plane_dy;
    for (size_t at = get_global_id(0); at < row_blocks * column_blocks * chunks; at += get_global_size(0)) {
        const size_t chunk = at / (row_blocks * column_blocks);
        const size_t first_row = at % row_blocks * rows, first_column = at / row_blocks % column_blocks * columns;
        const size_t used_rows = min(rows, inner - first_row);
        const size_t used_columns = min(columns, outer - first_column);
        const size_t begin = chunk * CHUNK, end = min(begin + CHUNK, tiles);
        for (size_t block = begin; block < end; block += deep) {
            const size_t used = min(deep, end - block);
            for (size_t k = 0; k < used; ++k) {
                const size_t tile = block + k, n = tile / (high * broad), base = n * IN_H;
                const int h = (int)(tile / broad % high) * 2, v = (int)(tile % broad) * 2;
                const int top = h - PAD_H, left = v - PAD_W;
                WINOGRAD_TILE
                for (size_t l = 0; l < used_rows; l += VX) {
                    const size_t c = first_row + l;
                    WINOGRAD_SEEN(xs + k * rows + l, plane)
                }
                for (size_t l = 0; l < columns; l += V) {
                    __global float *to = dys + (l / W * deep + k) * W + l % W;
                    if (l >= used_columns) {                // of a last panel
                        const FLOATS none = 0.0f;
                        TWO(0, none, none) TWO(1, none, none) TWO(2, none, none) TWO(3, none, none)
                        continue;
                    }
                    const FLOATS a0 = GIVEN(0, 0), b0 = GIVEN(0, 1), a3 = GIVEN(1, 0), b3 = GIVEN(1, 1);
                    const FLOATS a1 = a0 + a3, b1 = b0 + b3, a2 = a0 - a3, b2 = b0 - b3;
                    TWO(0, a0, b0) TWO(1, a1, b1) TWO(2, a2, b2) TWO(3, -a3, -b3)
                }
            }
            for (size_t t = 0; t < 16; ++t) {
                for (size_t l = 0; l < columns; l += W) {
                    __global const float *b = dys + t * plane_dy + l * deep;
                    for (size_t row = 0; row < used_rows; row += R) {
                        __global const float *p = xs + t * plane + row;
                        __global float *sums = sums_all + t * plane_sums + row * columns + l;
                        EACH_ROW(R, SUMS_OF)
                        if (block == begin) {
                            EACH_ROW(R, ZERO_ROW)
                        } else {
                            EACH_ROW(R, OLD_ROW)
                        }
                        for (size_t k = 0; k < used; ++k) {
                            EACH_COL(NV, LOAD, 0)
                            EACH_ROW(R, MULTIPLY)
                        }
                        EACH_ROW(R, KEEP_ROW)
                    }
                }
            }
        }
        for (size_t row = 0; row < used_rows; ++row) {
            for (size_t l = 0; l < used_columns; l += V) {
                __global const float *m = sums_all + row * columns + l;
                __global float *to = part + part_at + chunk * 9 * square + (first_row + row) * outer + first_column + l;
                EACH_ROW(4, SUM)
                EACH_ROW(4, UP)
                EACH_ROW(3, TAPS)
            }
        }
    }
}

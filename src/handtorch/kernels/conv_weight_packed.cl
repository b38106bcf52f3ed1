// conv_weight_packed: what conv_weight computes, for a core with caches:
//   part[s][t][c][o] = sum over the pixels n, oh, ow of chunk s of
//   dy[n][oh][ow][o] x[n][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw DIL_W][c]
// x f32 [N][IN_H][IN_W][DEEP]: a tap is a run of INNER, which may go on into the next pixels.
// dy f32 [N][OUT_H][OUT_W][GROUPS OUTER], part f32 [chunks][KH KW][INNER][GROUPS OUTER]; part may
// overlap no other operand.
// Rows of the product are channels of x and its columns those of dy, which lie side by side in a
// vector; with TURNED it is the other way round, for a dy of few channels.
// Item = BLOCK rows, COLUMNS columns, TAPS taps, one chunk of ROWS lines of dy; rows, rounded up to R,
// times COLUMNS times TAPS <= SUMS. Pixels come PIXELS at a time. A panel of W columns of what a tap
// meets of them rests in the nearest cache while the rows go by, R at a time in registers; meanwhile
// the pixels that come next are asked for, one cache line with each pixel. Both are read where they lie.
// With COPIED columns are copied first, side by side: where pixels are so far apart, by a power of two
// at that, that few of them fit into a cache together.
// The last tile of rows is moved up until it ends at the last row, and so is a last block of fewer;
// unless COPIED the same holds of panels. There they do again what nobody stores; so there must be R rows,
// and W columns.
// What lies in the padding is never visited. Each sum has one order: that of the pixels.
// Local memory: none.  Work-group: one item.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define TURNED 0
#define COPIED 1
#define PIXELS 16
#define COLUMNS 16                     // in panels of W, which divides it
#define SUMS 768
#endif
#define W (NV * V)
#define FLOATS VEC(float, V)
#define LINE 16                        // floats of a cache line
#define ALIGNED __attribute__((aligned(64)))
#define START(r) EACH_COL(NV, FETCH, r)
#define FETCH(r, v) FLOATS c##r##_##v = LOAD_V(v, s + r * COLUMNS);
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b);
#define MULTIPLY(r) { const FLOATS a = p[r]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#define ONE { __global const float *p = rows_at + row_of[at]; AHEAD(next); PANEL_ROW \
              EACH_COL(NV, LOAD, 0) EACH_ROW(R, MULTIPLY) next += next_step; ++at; }
#if COPIED
#define PANEL_ROW const float *b = panel_at + at * W;
#else
#define PANEL_ROW __global const float *b = panel_at + column_of[at];
#endif
#define STORE_ROW(r) EACH_COL(NV, STORE, r)
#define STORE(r, v) STORE_V(c##r##_##v, v, s + r * COLUMNS);
#if TURNED
#define ROWS_FROM from_dy
#define ROWS_AT dys
#define ROWS_STEP wide
#define COLUMNS_FROM from_x
#define COLUMNS_AT xs
#define COLUMNS_STEP across
#else
#define ROWS_FROM from_x
#define ROWS_AT xs
#define ROWS_STEP across
#define COLUMNS_FROM from_dy
#define COLUMNS_AT dys
#define COLUMNS_STEP wide
#endif
#if COPIED
// `count` runs of n numbers, `step` apart at p, come to lie `pitch` apart at q.
#define COPY HT_CAT(conv_weight_packed, _copy)
#define COPY_ONE(r, v) STORE_V(LOAD_V(v, p + j), v, q + j);
static void COPY(__global const float *p, const size_t step, float *q, const size_t pitch,
                 const int count, const int n) {
    int j = 0;
    if (n == W) {                      // nearly always: worth a loop without questions
        for (int i = 0; i < count; ++i, p += step, q += pitch) { EACH_COL(NV, COPY_ONE, 0) }
        return;
    }
    for (int i = 0; i < count; ++i, p += step, q += pitch) {
        for (j = 0; j + 4 * V <= n; j += 4 * V) { EACH_COL(4, COPY_ONE, 0) }
        for (; j + V <= n; j += V) { COPY_ONE(0, 0) }
        for (; j < n; ++j) q[j] = p[j];
    }
}
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_weight_packed(__global const float *dy, const uint dy_at, __global const float *x,
                        const uint x_at, __global float *part, const uint part_at,
                        const int N, const int GROUPS, const int INNER, const int OUTER,
                        const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                        const int KH, const int KW, const int DEEP, const int STRIDE_H,
                        const int STRIDE_W, const int PAD_H, const int PAD_W, const int DIL_H,
                        const int DIL_W, const int ROWS, const int BLOCK, const int TAPS) {
    const int height = TURNED ? OUTER : INNER, breadth = TURNED ? INNER : OUTER;
    const int taps = KH * KW, turns = (taps + TAPS - 1) / TAPS;
    const int runs = (breadth + COLUMNS - 1) / COLUMNS, turn = get_global_id(0) % turns * TAPS;
    const int own_top = get_global_id(0) / turns * BLOCK, own_left = get_global_id(1) % runs * COLUMNS;
    const int top = min(own_top, height - R), rows = min(own_top + BLOCK, height) - top;
    const int left = COPIED ? own_left : min(own_left, breadth - W);
    const int columns = min(own_left + COLUMNS, breadth) - left;
    const size_t group = get_global_id(1) / runs, chunk = get_global_id(2);
    const size_t wide = (size_t)GROUPS * OUTER, deep = DEEP, across = STRIDE_W * deep;
    const int tall = (rows + R - 1) / R * R, panels = (columns + W - 1) / W;
    const int own_taps = min(TAPS, taps - turn);
    const int first = chunk * ROWS * OUT_W, last = min(((int)chunk + 1) * ROWS, N * OUT_H) * OUT_W;
    __global const float *from_dy = dy + dy_at + group * OUTER + (TURNED ? top : left);
    __global const float *from_x = x + x_at + group * INNER + (TURNED ? left : top);
    float sums[SUMS] ALIGNED;
    size_t row_of[PIXELS];             // where the rows begin of each pixel that the tap meets
#if COPIED
    float strip[PIXELS * COLUMNS] ALIGNED;
    for (int i = 0; i < PIXELS * COLUMNS; i += V) STORE_V((FLOATS)0.0f, 0, strip + i);
#else
    size_t column_of[PIXELS];
#endif
    for (int i = 0; i < own_taps * tall * COLUMNS; i += V) STORE_V((FLOATS)0.0f, 0, sums + i);
    for (int from = first; from < last; from += PIXELS) {
        const int end = min(from + PIXELS, last), then = end / OUT_W;
        __global const float *next_dy = from_dy + (size_t)end * wide;
        __global const float *next_x = from_x + (size_t)(end % OUT_W) * across
            + ((size_t)(then / OUT_H) * IN_H + then % OUT_H * STRIDE_H) * IN_W * deep;
        for (int tap = 0; tap < own_taps; ++tap) {
            const int off_h = (turn + tap) / KW * DIL_H - PAD_H, off_w = (turn + tap) % KW * DIL_W - PAD_W;
            const int low = max((-off_w + STRIDE_W - 1) / STRIDE_W, 0);
            const int high = min(IN_W <= off_w ? 0 : (IN_W - 1 - off_w) / STRIDE_W + 1, OUT_W);
            int pixels = 0, stop;
            for (int at = from; at < end; at += stop) {
                const int row = at / OUT_W, begin = max(at % OUT_W, low);
                const int h = row % OUT_H * STRIDE_H + off_h;
                stop = min(OUT_W - at % OUT_W, end - at);
                const int count = min(at % OUT_W + stop, high) - begin;
                if (h < 0 || h >= IN_H || count <= 0) continue;
                __global const float *dys = from_dy + ((size_t)row * OUT_W + begin) * wide;
                __global const float *xs = from_x
                    + (((size_t)(row / OUT_H) * IN_H + h) * IN_W + begin * STRIDE_W + off_w) * deep;
                for (int i = 0; i < count; ++i)
                    row_of[pixels + i] = ROWS_AT - ROWS_FROM + i * ROWS_STEP;
#if COPIED
                for (int k = 0; k < panels; ++k)
                    COPY(COLUMNS_AT + k * W, COLUMNS_STEP, strip + (k * PIXELS + pixels) * W, W, count,
                         min(W, columns - k * W));
#else
                for (int i = 0; i < count; ++i)
                    column_of[pixels + i] = COLUMNS_AT - COLUMNS_FROM + i * COLUMNS_STEP;
#endif
                pixels += count;
            }
            const int of_dy = ((TURNED ? rows : columns) + LINE - 1) / LINE;
            const int of_x = end < last && tap == 0 ? ((TURNED ? columns : rows) + LINE - 1) / LINE : 0;
            for (int k = 0, call = 0; k < panels; ++k)
                for (int i = 0; i < tall; i += R, ++call) {
                    const bool is_dy = of_x && call < of_dy, is_x = call >= of_dy && call < of_dy + of_x;
                    __global const float *next = is_x ? next_x + (call - of_dy) * LINE
                                                      : next_dy + (is_dy ? call * LINE : 0);
                    const size_t next_step = is_dy ? wide : is_x ? across : 0;
                    __global const float *rows_at = ROWS_FROM + min(i, rows - R);
#if COPIED
                    const float *panel_at = strip + k * PIXELS * W;
#else
                    __global const float *panel_at = COLUMNS_FROM + min(k * W, columns - W);
#endif
                    float *s = sums + (tap * tall + i) * COLUMNS + k * W;
                    EACH_ROW(R, START)
                    int at = 0;
                    while (at + 1 < pixels) { ONE ONE }
                    if (at < pixels) ONE
                    EACH_ROW(R, STORE_ROW)
                }
        }
    }
    // Where what was done twice is: behind what only a tile or panel before the last one did.
    const int stored = rows - (own_top - top), sure_rows = tall - R, sure = (panels - 1) * W;
    for (int line = 0; line < own_taps * stored; ++line) {
        const int row = line % stored + own_top - top;
        const int at = line / stored * tall + (row < sure_rows ? row : row + tall - rows);
        const size_t tap = chunk * taps + turn + line / stored, i = top + row;
        __global float *to = part + part_at + tap * INNER * wide + group * OUTER;
        for (int j = own_left - left, stop; j < columns; j = stop) {
            const float *s = sums + at * COLUMNS + (COPIED || j < sure ? 0 : panels * W - columns);
            stop = j < sure ? sure : columns;
#if TURNED
            for (; j < stop; ++j) to[(left + j) * wide + i] = s[j];
#else
            __global float *q = to + i * wide + left;
            for (; j + V <= stop; j += V) STORE_V(LOAD_V(0, s + j), 0, q + j);
            for (; j < stop; ++j) q[j] = s[j];
#endif
        }
    }
}

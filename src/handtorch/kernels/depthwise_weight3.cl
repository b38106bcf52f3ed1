// depthwise_weight3: part[s][t][c] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][oh][ow][c] x[n][oh STEP - PAD_H + kh][ow STEP - PAD_W + kw][c],  t = 3 kh + kw, kh and kw below 3
// x f32 [N][IN_H][IN_W][C], dy f32 [N][OUT_H][OUT_W][C], part f32 [chunks][9][C]; part may overlap no
// other operand.  V <= C; STEP is 1 or 2.
// Two rows of dy go by together. For V channels the nine sums, of each line of x that the two meet the columns
// that the next pixel meets too, and a mask for each line rest in registers: a number of x is loaded once for
// both rows. Outside x are zeros, by the mask for lines, by asking at the ends of a row; a second row that is
// not there is zeros too.
// FAR: the next two rows of both pictures are asked for ahead; a macro, since a test of it costs registers.
// Sums of SOME rows are added to part: long ones would round more.
// Item = BLOCKS vectors of channels one after the other, one chunk of ROWS rows. The last vector is moved left
// until it ends at C, and stores only what no other one owns.
// Local memory: none.  Work-group: 1.  The hint keeps a compiler from making vectors of items.
#ifndef V
#define V 4
#define STEP 1
#define FAR 0
#endif
#define FLOATS VEC(float, V)
#define START(l) FLOATS s##l##_0 = 0.0f, s##l##_1 = 0.0f, s##l##_2 = 0.0f;
#define SEEN(mask, p) VEC(as_float, V)(VEC(as_int, V)(LOAD_V(0, p)) & mask)
#define SEEN_INSIDE(m, column) \
    ((uint)(column) < (uint)IN_W ? SEEN(mask##m, x##m + (column) * deep) : (FLOATS)0.0f)
#define LINE(m) const VEC(int, V) mask##m = -(int)(h + m >= 0 && h + m < IN_H); \
    __global const float *x##m = image + (long)clamp(h + m, 0, IN_H - 1) * IN_W * deep;
// Of line m: what is kept before the first pixel; columns that are new to a pixel whose last one is at `at`, or
// which may be outside; then each tap of line l of the kernel; then what is kept for the next pixel.
#if STEP == 1
#define LINES 4
#define KEPT 2
#define BEFORE(m) FLOATS a##m = SEEN_INSIDE(m, -PAD_W), b##m = SEEN_INSIDE(m, 1 - PAD_W);
#define NEW(m) const FLOATS c##m = SEEN(mask##m, x##m + at);
#define NEW_INSIDE(m) const FLOATS c##m = SEEN_INSIDE(m, left + 2);
#define KEEP(m) a##m = b##m; b##m = c##m;
#define PIXEL(LOAD) ROWS_OF_DY LOAD(0) MEET(d, 0, 0) KEEP(0) LOAD(1) MEET(d, 1, 1) MEET(e, 0, 1) KEEP(1) \
    LOAD(2) MEET(d, 2, 2) MEET(e, 1, 2) KEEP(2) LOAD(3) MEET(e, 2, 3) KEEP(3)
#define FETCH AHEAD(x2 + (at + far_x)); AHEAD(x3 + (at + far_x));
#else
#define LINES 5
#define KEPT 1
#define BEFORE(m) FLOATS a##m = SEEN_INSIDE(m, -PAD_W);
#define NEW(m) const FLOATS b##m = SEEN(mask##m, x##m + (at - deep)), c##m = SEEN(mask##m, x##m + at);
#define NEW_INSIDE(m) const FLOATS b##m = SEEN_INSIDE(m, left + 1), c##m = SEEN_INSIDE(m, left + 2);
#define KEEP(m) a##m = c##m;
#define PIXEL(LOAD) ROWS_OF_DY LOAD(0) MEET(d, 0, 0) KEEP(0) LOAD(1) MEET(d, 1, 1) KEEP(1) \
    LOAD(2) MEET(d, 2, 2) MEET(e, 0, 2) KEEP(2) LOAD(3) MEET(e, 1, 3) KEEP(3) LOAD(4) MEET(e, 2, 4) KEEP(4)
#define FETCH FETCH_TWO(1) FETCH_TWO(2) FETCH_TWO(3) FETCH_TWO(4)
#define FETCH_TWO(m) AHEAD(x##m + (at + far_x)); AHEAD(x##m + (at + far_x - deep));
#endif
#define ROWS_OF_DY const FLOATS d = LOAD_V(0, d_at), e = SEEN(second, d_at + next);
#define MEET(d, l, m) s##l##_0 = fma(d, a##m, s##l##_0); s##l##_1 = fma(d, b##m, s##l##_1); \
    s##l##_2 = fma(d, c##m, s##l##_2);
#define STORE(l) STORE_TAP(s##l##_0, 3 * l) STORE_TAP(s##l##_1, 3 * l + 1) STORE_TAP(s##l##_2, 3 * l + 2)
#define STORE_TAP(s, t) if (skip == 0) { \
        STORE_V(start > begin ? LOAD_V(0, parts + (t) * deep) + s : s, 0, parts + (t) * deep); \
    } else { \
        float lanes[V]; \
        STORE_V(s, 0, lanes); \
        for (int i = skip; i < V; ++i) { \
            parts[(t) * deep + i] = start > begin ? parts[(t) * deep + i] + lanes[i] : lanes[i]; \
        } \
    }
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(FLOATS)))
void depthwise_weight3(__global const float *dy, const uint dy_at,
                       __global const float *x, const uint x_at,
                       __global float *part, const uint part_at, const int N, const int C,
                       const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                       const int PAD_H, const int PAD_W, const int ROWS, const int SOME,
                       const int BLOCKS) {
    const long deep = C, chunk = get_global_id(2);
    const int begin = chunk * ROWS, end = min(begin + ROWS, N * OUT_H);
    const int from = get_global_id(0) * BLOCKS * V, to = min(from + BLOCKS * V, C);
    // For pixels from `low` up to `high` all that is new is inside.
    const int low = clamp((PAD_W - KEPT + STEP - 1) / STEP, 0, OUT_W);
    const int high = clamp((IN_W + PAD_W - 3 + STEP) / STEP, low, OUT_W);
#if FAR
    const long far_dy = 2 * OUT_W * deep, far_x = 2 * STEP * IN_W * deep;
#endif
    for (int own = from; own < to; own += V) for (int start = begin; start < end; start += SOME) {
        const int stop = min(start + SOME, end);
        const int first = min(own, C - V), skip = own - first;
        __global const float *dys = dy + dy_at + first, *xs = x + x_at + first;
        __global float *parts = part + part_at + chunk * 9 * deep + first;
        EACH_ROW(3, START)
        int picture = start / OUT_H, oh = start % OUT_H;
        for (int row = start, rows; row < stop; row += rows) {
            if (oh == OUT_H) { oh = 0; ++picture; }
            rows = oh + 1 < OUT_H && row + 1 < stop ? 2 : 1;
            const VEC(int, V) second = 1 - rows;
            const long next = (rows - 1) * OUT_W * deep;
            const int h = oh * STEP - PAD_H;
            __global const float *image = xs + (long)picture * IN_H * IN_W * deep;
            __global const float *d_at = dys + (long)row * OUT_W * deep;
            EACH_ROW(LINES, LINE)
            EACH_ROW(LINES, BEFORE)
            for (int ow = 0; ow < OUT_W;) {
                long at = (ow * STEP - PAD_W + 2) * deep;
                for (; ow >= low && ow < high; ++ow) {
#if FAR
                    AHEAD(d_at + far_dy); AHEAD(d_at + (next + far_dy)); FETCH
#endif
                    PIXEL(NEW)
                    d_at += deep;
                    at += STEP * deep;
                }
                if (ow < OUT_W) {
                    const int left = ow * STEP - PAD_W;
                    PIXEL(NEW_INSIDE)
                    d_at += deep;
                    ++ow;
                }
            }
            oh += rows;
        }
        EACH_ROW(3, STORE)
    }
}

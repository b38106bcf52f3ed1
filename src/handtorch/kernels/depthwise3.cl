// depthwise3: y[n][u][v][c] = f(sum over kh, kw of w[t][c] x[n][u STEP - PAD_H + kh][v STEP - PAD_W + kw][c]),
//   t = 3 kh + kw, or 8 - that if TURNED: each channel sees itself, through 3 x 3 taps. f as in depthwise.
//   A convolution; TURNED, with STEP 1 and PAD 2 less its own, its gradient for x.
// x f32 [N][IN_H][IN_W][C], w f32 [9][C], bias f32 [C]; y, more, mask f32 [N][OUT_H][OUT_W][C]; y may overlap
// no operand.  V <= C; STEP is 1 or 2.
// Two rows of y go by together. For V channels the nine taps, of each line of x that the two see the columns
// that the next pixel sees too, and a mask for each line rest in registers: a number of x is loaded once for
// both rows. Outside x are zeros, by the mask for lines, by asking at the ends of a row.
// Item = PAIRS pairs of rows x VECTORS vectors of channels; the last of them has what is left, whose last
// vector is moved left until it ends at C.
// Local memory: none.  Work-group: 1.  The hint keeps a compiler from making vectors of items.
#ifndef V
#define V 4
#define STEP 1
#define TURNED 0
#define BIAS 0
#define MORE 0
#define ACT 0
#define MASK 0
#endif
#define FLOATS VEC(float, V)
#define TAP(l) TAP_AT(l, 0) TAP_AT(l, 1) TAP_AT(l, 2)
#define TAP_AT(l, k) const FLOATS w##l##_##k = LOAD_V(0, w + w_at + (TURNED ? 8 - 3 * l - k : 3 * l + k) * deep + c);
#define SEEN(mask, p) VEC(as_float, V)(VEC(as_int, V)(LOAD_V(0, p)) & mask)
#define SEEN_INSIDE(m, column) \
    ((uint)(column) < (uint)IN_W ? SEEN(mask##m, x##m + (column) * deep) : (FLOATS)0.0f)
#define LINE(m) const VEC(int, V) mask##m = -(int)(h + m >= 0 && h + m < IN_H); \
    __global const float *x##m = image + (long)clamp(h + m, 0, IN_H - 1) * IN_W * deep;
// Of line m: what is kept before the first pixel; columns that are new to a pixel whose last one is at `at`, or
// which may be outside; then its part of both rows; then what is kept for the next pixel.
#if STEP == 1
#define LINES 4
#define KEPT 2
#define BEFORE(m) FLOATS a##m = SEEN_INSIDE(m, -PAD_W), b##m = SEEN_INSIDE(m, 1 - PAD_W);
#define NEW(m) const FLOATS c##m = SEEN(mask##m, x##m + at);
#define NEW_INSIDE(m) const FLOATS c##m = SEEN_INSIDE(m, left + 2);
#define KEEP(m) a##m = b##m; b##m = c##m;
#define PIXEL(LOAD) FLOATS p = 0.0f, q = 0.0f; LOAD(0) MEET(p, 0, 0) KEEP(0) LOAD(1) MEET(p, 1, 1) MEET(q, 0, 1) \
    KEEP(1) LOAD(2) MEET(p, 2, 2) MEET(q, 1, 2) KEEP(2) LOAD(3) MEET(q, 2, 3) KEEP(3) STORES
#else
#define LINES 5
#define KEPT 1
#define BEFORE(m) FLOATS a##m = SEEN_INSIDE(m, -PAD_W);
#define NEW(m) const FLOATS b##m = SEEN(mask##m, x##m + (at - deep)), c##m = SEEN(mask##m, x##m + at);
#define NEW_INSIDE(m) const FLOATS b##m = SEEN_INSIDE(m, left + 1), c##m = SEEN_INSIDE(m, left + 2);
#define KEEP(m) a##m = c##m;
#define PIXEL(LOAD) FLOATS p = 0.0f, q = 0.0f; LOAD(0) MEET(p, 0, 0) KEEP(0) LOAD(1) MEET(p, 1, 1) KEEP(1) \
    LOAD(2) MEET(p, 2, 2) MEET(q, 0, 2) KEEP(2) LOAD(3) MEET(q, 1, 3) KEEP(3) LOAD(4) MEET(q, 2, 4) KEEP(4) STORES
#endif
#define MEET(sum, l, m) sum = fma(w##l##_0, a##m, sum); sum = fma(w##l##_1, b##m, sum); \
    sum = fma(w##l##_2, c##m, sum);
#define STORES STORE(p, to) if (rows == 2) { STORE(q, to + OUT_W * deep) } to += deep;
#define STORE(sum, place) { \
        const size_t here = place; \
        FLOATS s = sum; \
        EPILOGUE(FLOATS, LOAD_V, c, here) \
        STORE_V(s, 0, y + y_at + here); \
    }
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(FLOATS)))
void depthwise3(__global const float *x, const uint x_at, __global const float *w, const uint w_at,
                __global float *y, const uint y_at,
                EPILOGUE_GIVEN
                const int N, const int C, const int IN_H, const int IN_W, const int OUT_H,
                const int OUT_W, const int PAD_H, const int PAD_W, const int PAIRS, const int VECTORS) {
    const long deep = C;
    const int begin = get_global_id(1) * VECTORS * V;
    const int end = (int)(get_global_id(1) + 1) * VECTORS < C / V ? begin + VECTORS * V : C;
    const int high_pairs = (OUT_H + 1) / 2, first = get_global_id(0) * PAIRS;
    const int last = min(first + PAIRS, N * high_pairs);
    // For pixels from `low` up to `high` all that is new is inside.
    const int low = clamp((PAD_W - KEPT + STEP - 1) / STEP, 0, OUT_W);
    const int high = clamp((IN_W + PAD_W - 3 + STEP) / STEP, low, OUT_W);
    for (int pair = first; pair < last; ++pair) for (int at_c = begin; at_c < end; at_c += V) {
        const int c = min(at_c, end - V), picture = pair / high_pairs, u = pair % high_pairs * 2;
        const int h = u * STEP - PAD_H, rows = min(OUT_H - u, 2);
        __global const float *image = x + x_at + (long)picture * IN_H * IN_W * deep + c;
        size_t to = ((size_t)picture * OUT_H + u) * OUT_W * deep + c;
        EACH_ROW(3, TAP)
        EACH_ROW(LINES, LINE)
        EACH_ROW(LINES, BEFORE)
        for (int v = 0; v < OUT_W;) {
            long at = (v * STEP - PAD_W + 2) * deep;
            for (; v >= low && v < high; ++v) {
                PIXEL(NEW)
                at += STEP * deep;
            }
            if (v < OUT_W) {
                const int left = v * STEP - PAD_W;
                PIXEL(NEW_INSIDE)
                ++v;
            }
        }
    }
}

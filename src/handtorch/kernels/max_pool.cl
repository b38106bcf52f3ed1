// max_pool: y = the largest x of each window, index = where in its plane of x that lies (the first
// of equals; NaN is larger than all, the last of them wins, as in torch; -1 if it sees none).
// x f32 [planes][IN_H][IN_W][DEEP], y f32 and index i32 [planes][OUT_H][OUT_W][DEEP]; no operand
// overlaps another.  V must divide DEEP and STRIP.
// KH x KW: the window, written out, or 0 for any: HIGH x WIDE.
// FAR: how many pixels ahead x is asked for, 0 for never.
// Item = TAKE of the ROWS = planes x OUT_H rows of y, STRIP channels; what a window sees is found
// once for all of them.  Dimensions: DEEP / STRIP, ROWS / TAKE, both rounded up.
// Local memory: none.  Work-group: 1.
#ifndef V
#define V 4
#define KH 3
#define KW 3
#define FAR 0
#endif
#define FLOATS VEC(float, V)
#define INTS VEC(int, V)
// The first and the last place of a window that lie inside the input.
#define FIRST(start, dil) ((start) < 0 ? (start) + ((dil) - 1 - (start)) / (dil) * (dil) : (start))
#define LAST(start, k, dil, in) ((start) + ((k) - 1) * (dil) < (in) ? (start) + ((k) - 1) * (dil) \
                                 : (start) + ((in) - 1 - (start)) / (dil) * (dil))
#define SEE(place) { \
        const FLOATS v = LOAD_V(0, image + (place) * deep + c); \
        const INTS taken = v > best || v != v; \
        best = select(best, v, taken); \
        at = select(at, (INTS)(place), taken); \
    }
#if FAR
#define ASK(line) \
    AHEAD(image + (line + last_w + FAR) * deep + c); \
    if (STRIDE_W > 1) AHEAD(image + (line + last_w + FAR + 1) * deep + c);
#else
#define ASK(line)
#endif
// A place outside is moved to the nearest one inside: seen twice, an element changes nothing.
#define LINE(i) const int line##i = clamp(top + i * DIL_H, first_h, last_h) * IN_W;
#define COLUMN(i) const int w##i = clamp(left + i * DIL_W, first_w, last_w);
#define SEE_ONE(i, j) SEE(line##i + w##j)
#define SEE_LINE(i) ASK(line##i) EACH_COL(KW, SEE_ONE, i)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void max_pool(__global const float *x, const uint x_at, __global float *y, const uint y_at,
              __global int *index, const uint index_at, const int ROWS, const int TAKE,
              const int DEEP, const int STRIP, const int IN_H, const int IN_W, const int OUT_H,
              const int OUT_W, const int HIGH, const int WIDE, const int STRIDE_H,
              const int STRIDE_W, const int PAD_H, const int PAD_W, const int DIL_H,
              const int DIL_W) {
    const size_t deep = DEEP, from = get_global_id(0) * STRIP, to = min(from + STRIP, deep);
    const size_t begin = get_global_id(1) * TAKE, end = min(begin + TAKE, (size_t)ROWS);
    for (size_t row = begin; row < end; ++row) {
        const int top = (int)(row % OUT_H) * STRIDE_H - PAD_H;
        const int first_h = FIRST(top, DIL_H), last_h = LAST(top, HIGH, DIL_H, IN_H);
        __global const float *image = x + x_at + row / OUT_H * IN_H * IN_W * deep;
        size_t out = row * OUT_W * deep;
        for (int ow = 0; ow < OUT_W; ++ow, out += deep) {
            const int left = ow * STRIDE_W - PAD_W;
            const int first_w = FIRST(left, DIL_W), last_w = LAST(left, WIDE, DIL_W, IN_W);
            const int sees = first_h <= last_h && first_w <= last_w;
            const int start = sees ? first_h * IN_W + first_w : -1;
#if KH
            EACH_ROW(KH, LINE)
            EACH_ROW(KW, COLUMN)
#endif
            for (size_t c = from; c < to; c += V) {
                FLOATS best = -INFINITY;
                INTS at = start;
#if KH
                if (sees) { EACH_ROW(KH, SEE_LINE) }
#else
                for (int h = first_h; h <= last_h; h += DIL_H) {
                    ASK(h * IN_W)
                    for (int w = first_w; w <= last_w; w += DIL_W) SEE(h * IN_W + w)
                }
#endif
                STORE_V(best, 0, y + y_at + out + c);
                STORE_V(at, 0, index + index_at + out + c);
            }
        }
    }
}

// avg_pool: y = the mean of x over each window: K wide every STRIDE, or, if ADAPTIVE, the part of x
// that falls to it: from o IN / OUT, rounded down, to (o + 1) IN / OUT, rounded up.
// The sum is divided by DIVISOR if that is not 0, else by the elements of the window: those in the
// padding too if PAD_COUNTS, but never those beyond the padding.
// x f32 [planes][IN_H][IN_W][DEEP], y f32 [planes][OUT_H][OUT_W][DEEP]; y may not overlap x.
// V must divide DEEP and STRIP.  FAR: how many pixels ahead x is asked for, 0 for never.
// Item = TAKE of the ROWS = planes x OUT_H rows of y, STRIP channels.  Dimensions: DEEP / STRIP,
// ROWS / TAKE, both rounded up.  Local memory: none.  Work-group: 1.
#ifndef V
#define V 4
#define ADAPTIVE 0
#define FAR 0
#endif
#define FLOATS VEC(float, V)
#if ADAPTIVE
#define FIRST(o, in, out, k, stride, pad) ((o) * (in) / (out))
#define LAST(o, in, out, k, stride, pad) (((o) * (in) + (in) + (out) - 1) / (out))
#else
#define FIRST(o, in, out, k, stride, pad) ((o) * (stride) - (pad))
#define LAST(o, in, out, k, stride, pad) min((o) * (stride) - (pad) + (k), (in) + (pad))
#endif
#define ALONG_H(X, o) X(o, IN_H, OUT_H, KH, STRIDE_H, PAD_H)
#define ALONG_W(X, o) X(o, IN_W, OUT_W, KW, STRIDE_W, PAD_W)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void avg_pool(__global const float *x, const uint x_at, __global float *y, const uint y_at,
              const int ROWS, const int TAKE, const int DEEP, const int STRIP, const int IN_H,
              const int IN_W, const int OUT_H, const int OUT_W, const int KH, const int KW,
              const int STRIDE_H, const int STRIDE_W, const int PAD_H, const int PAD_W,
              const int PAD_COUNTS, const int DIVISOR) {
    const size_t deep = DEEP, from = get_global_id(0) * STRIP, to = min(from + STRIP, deep);
    const size_t begin = get_global_id(1) * TAKE, end = min(begin + TAKE, (size_t)ROWS);
    for (size_t row = begin; row < end; ++row) {
        const int oh = row % OUT_H, from_h = ALONG_H(FIRST, oh), to_h = ALONG_H(LAST, oh);
        const int first_h = max(from_h, 0), last_h = min(to_h, IN_H) - 1;
        __global const float *image = x + x_at + row / OUT_H * IN_H * IN_W * deep;
        __global float *out = y + y_at + row * OUT_W * deep;
        for (int ow = 0; ow < OUT_W; ++ow, out += deep) {
            const int from_w = ALONG_W(FIRST, ow), to_w = ALONG_W(LAST, ow);
            const int first_w = max(from_w, 0), last_w = min(to_w, IN_W) - 1;
            const float share = DIVISOR != 0 ? DIVISOR
                : PAD_COUNTS ? (to_h - from_h) * (to_w - from_w)
                : (last_h - first_h + 1) * (last_w - first_w + 1);
            for (size_t c = from; c < to; c += V) {
                FLOATS sum = 0.0f;
                for (int h = first_h; h <= last_h; ++h) {
#if FAR
                    AHEAD(image + (h * IN_W + last_w + FAR) * deep + c);
                    if (STRIDE_W > 1) AHEAD(image + (h * IN_W + last_w + FAR + 1) * deep + c);
#endif
                    for (int w = first_w; w <= last_w; ++w)
                        sum += LOAD_V(0, image + (h * IN_W + w) * deep + c);
                }
                STORE_V(sum / share, 0, out + c);
            }
        }
    }
}

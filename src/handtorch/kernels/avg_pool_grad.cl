// avg_pool_grad: dx = the sum of dy / (what avg_pool divides by) over the windows that hold this
// element; see avg_pool for the windows.
// dy f32 [planes][OUT_H][OUT_W][DEEP], dx f32 [planes][IN_H][IN_W][DEEP]; dx may not overlap dy.
// V must divide DEEP and STRIP.  FAR: how many windows ahead dy is asked for, 0 for never.
// Item = TAKE of the ROWS = planes x IN_H rows of dx, STRIP channels.  Dimensions: DEEP / STRIP,
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
#define OLDEST(i, in, out, k, stride, pad) ((i) * (out) / (in))
#define NEWEST(i, in, out, k, stride, pad) (((i) * (out) + (out) - 1) / (in))
#else
#define FIRST(o, in, out, k, stride, pad) ((o) * (stride) - (pad))
#define LAST(o, in, out, k, stride, pad) min((o) * (stride) - (pad) + (k), (in) + (pad))
#define OLDEST(i, in, out, k, stride, pad) max(((i) + (pad) - (k) + (stride)) / (stride), 0)
#define NEWEST(i, in, out, k, stride, pad) min(((i) + (pad)) / (stride), (out) - 1)
#endif
#define ALONG_H(X, o) X(o, IN_H, OUT_H, KH, STRIDE_H, PAD_H)
#define ALONG_W(X, o) X(o, IN_W, OUT_W, KW, STRIDE_W, PAD_W)
#define COUNTED(from, to, in) (PAD_COUNTS ? (to) - (from) : min(to, in) - max(from, 0))
#define HIGH(oh) COUNTED(ALONG_H(FIRST, oh), ALONG_H(LAST, oh), IN_H)
#define WIDE(ow) COUNTED(ALONG_W(FIRST, ow), ALONG_W(LAST, ow), IN_W)
#define SHARE(oh, ow) (DIVISOR != 0 ? DIVISOR : HIGH(oh) * WIDE(ow))
#define GIVEN(oh, ow) LOAD_V(0, image + (oh * OUT_W + ow) * deep + c)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void avg_pool_grad(__global const float *dy, const uint dy_at, __global float *dx, const uint dx_at,
                   const int ROWS, const int TAKE, const int DEEP, const int STRIP, const int IN_H,
                   const int IN_W, const int OUT_H, const int OUT_W, const int KH, const int KW,
                   const int STRIDE_H, const int STRIDE_W, const int PAD_H, const int PAD_W,
                   const int PAD_COUNTS, const int DIVISOR) {
    const size_t deep = DEEP, from = get_global_id(0) * STRIP, to = min(from + STRIP, deep);
    const size_t begin = get_global_id(1) * TAKE, end = min(begin + TAKE, (size_t)ROWS);
    for (size_t row = begin; row < end; ++row) {
        const int h = row % IN_H, first_h = ALONG_H(OLDEST, h), last_h = ALONG_H(NEWEST, h);
        __global const float *image = dy + dy_at + row / IN_H * OUT_H * OUT_W * deep;
        __global float *out = dx + dx_at + row * IN_W * deep;
        for (int w = 0; w < IN_W; ++w, out += deep) {
            const int first_w = ALONG_W(OLDEST, w), last_w = ALONG_W(NEWEST, w);
            // No window has more elements than KH x KW: if the outermost have, so have all of them.
            const int share = SHARE(first_h, first_w), other = SHARE(last_h, last_w);
            const int alike = DIVISOR != 0 || (first_h == last_h && first_w == last_w) ||
                              (share == KH * KW && other == KH * KW);
            for (size_t c = from; c < to; c += V) {
                FLOATS sum = 0.0f;
#if FAR
                AHEAD(image + (last_h * OUT_W + last_w + FAR) * deep + c);
#endif
                if (alike) {
                    for (int oh = first_h; oh <= last_h; ++oh)
                        for (int ow = first_w; ow <= last_w; ++ow) sum += GIVEN(oh, ow);
                    sum /= (float)share;
                } else {
                    for (int oh = first_h; oh <= last_h; ++oh)
                        for (int ow = first_w; ow <= last_w; ++ow)
                            sum += GIVEN(oh, ow) / (float)SHARE(oh, ow);
                }
                STORE_V(sum, 0, out + c);
            }
        }
    }
}

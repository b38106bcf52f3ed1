// avg_pool_grad: dx = the sum of dy / (what avg_pool divides by) over the windows that hold this element.
// dy f32 [planes][OUT_H][OUT_W][DEEP], dx f32 [planes][IN_H][IN_W][DEEP]; dx may not overlap dy. See
// avg_pool for the windows.  V must divide DEEP.
// Item = one row of dx, V channels.  Dimensions: DEEP / V, planes x IN_H.  Local memory: none.
// Work-group: 1.
#ifndef V
#define V 4
#define ADAPTIVE 0
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
#define SHARE (DIVISOR != 0 ? DIVISOR : PAD_COUNTS ? (to_h - from_h) * (to_w - from_w) \
               : (min(to_h, IN_H) - max(from_h, 0)) * (min(to_w, IN_W) - max(from_w, 0)))
#if ADAPTIVE
#define OLDEST(i, in, out, k, stride, pad) ((i) * (out) / (in))
#define NEWEST(i, in, out, k, stride, pad) (((i) * (out) + (out) - 1) / (in))
#else
#define OLDEST(i, in, out, k, stride, pad) max(((i) + (pad) - (k) + (stride)) / (stride), 0)
#define NEWEST(i, in, out, k, stride, pad) min(((i) + (pad)) / (stride), (out) - 1)
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void avg_pool_grad(__global const float *dy, const uint dy_at, __global float *dx, const uint dx_at,
                   const int DEEP, const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                   const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
                   const int PAD_H, const int PAD_W, const int PAD_COUNTS, const int DIVISOR) {
    const size_t lane = get_global_id(0) * V, row = get_global_id(1), deep = DEEP;
    __global const float *image = dy + dy_at + row / IN_H * OUT_H * OUT_W * deep + lane;
    const int h = row % IN_H, first_h = ALONG_H(OLDEST, h), last_h = ALONG_H(NEWEST, h);
    __global float *to = dx + dx_at + row * IN_W * deep + lane;
    for (int w = 0; w < IN_W; ++w, to += deep) {
        const int first_w = ALONG_W(OLDEST, w), last_w = ALONG_W(NEWEST, w);
        FLOATS sum = 0.0f;
        for (int oh = first_h; oh <= last_h; ++oh) {
            const int from_h = ALONG_H(FIRST, oh), to_h = ALONG_H(LAST, oh);
            for (int ow = first_w; ow <= last_w; ++ow) {
                const int from_w = ALONG_W(FIRST, ow), to_w = ALONG_W(LAST, ow);
                sum += LOAD_V(0, image + ((size_t)oh * OUT_W + ow) * deep) / (float)SHARE;
            }
        }
        STORE_V(sum, 0, to);
    }
}

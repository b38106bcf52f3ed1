// avg_pool: y = the mean of x over each window: K wide every STRIDE, or, if ADAPTIVE, the part of x
// that falls to it: from o IN / OUT, rounded down, to (o + 1) IN / OUT, rounded up.
// The sum is divided by DIVISOR if that is not 0, else by the elements of the window: those in the
// padding too if PAD_COUNTS, but never those beyond the padding.
// x f32 [planes][IN_H][IN_W][DEEP], y f32 [planes][OUT_H][OUT_W][DEEP]; y may not overlap x.  V must
// divide DEEP.
// Item = one row of y, V channels.  Dimensions: DEEP / V, planes x OUT_H.  Local memory: none.
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
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void avg_pool(__global const float *x, const uint x_at, __global float *y, const uint y_at,
              const int DEEP, const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
              const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
              const int PAD_H, const int PAD_W, const int PAD_COUNTS, const int DIVISOR) {
    const size_t first = get_global_id(0) * V, row = get_global_id(1), deep = DEEP;
    __global const float *image = x + x_at + row / OUT_H * IN_H * IN_W * deep + first;
    const int oh = row % OUT_H, from_h = ALONG_H(FIRST, oh), to_h = ALONG_H(LAST, oh);
    __global float *to = y + y_at + row * OUT_W * deep + first;
    for (int ow = 0; ow < OUT_W; ++ow, to += deep) {
        const int from_w = ALONG_W(FIRST, ow), to_w = ALONG_W(LAST, ow);
        FLOATS sum = 0.0f;
        for (int h = max(from_h, 0); h < min(to_h, IN_H); ++h)
            for (int w = max(from_w, 0); w < min(to_w, IN_W); ++w)
                sum += LOAD_V(0, image + ((size_t)h * IN_W + w) * deep);
        STORE_V(sum / (float)SHARE, 0, to);
    }
}

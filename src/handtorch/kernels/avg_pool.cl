// avg_pool: y = the mean of x over each window: K wide every STRIDE, or, if ADAPTIVE, the part of x
// that falls to it: from o IN / OUT, rounded down, to (o + 1) IN / OUT, rounded up.
// The sum is divided by DIVISOR if that is not 0, else by the elements of the window: those in the
// padding too if PAD_COUNTS, but never those beyond the padding.
// x f32 [planes][IN_H][IN_W], y f32 [planes][OUT_H][OUT_W]; y may not overlap x.
// Item = one row of y, V neighbours at a time where strides of 1 or 2 let them be read as vectors
// without leaving x.  Dimension 0: planes x OUT_H.  Local memory: none.  Work-group: 1.  V: 4 or 8.
#ifndef V
#define V 4
#define ADAPTIVE 0
#endif
#define LOAD_V HT_CAT(vl, HT_CAT(oad, V))
#define STORE_V HT_CAT(vs, HT_CAT(tore, V))
#define FLOATS VEC(float, V)
#define INTS VEC(int, V)
// Every second element; lane by lane, because Oclgrind crashes on swizzles of wide vectors.
#define HALF(p) (p)[0], (p)[2], (p)[4], (p)[6]
#if V == 8
#define COUNTED (int8)(0, 1, 2, 3, 4, 5, 6, 7)
#define EVEN_V(p) (float8)(HALF(p), HALF((p) + 8))
#else
#define COUNTED (int4)(0, 1, 2, 3)
#define EVEN_V(p) (float4)(HALF(p))
#endif
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
              const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
              const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
              const int PAD_H, const int PAD_W, const int PAD_COUNTS, const int DIVISOR) {
    const size_t row = get_global_id(0), plane = (size_t)IN_H * IN_W;
    const size_t planes = get_global_size(0) / OUT_H, image = row / OUT_H * plane;
    const int oh = row % OUT_H, from_h = ALONG_H(FIRST, oh), to_h = ALONG_H(LAST, oh);
    const int top = max(from_h, 0), bottom = min(to_h, IN_H);
    const long low = (long)image - PAD_W, high = low + (long)plane - IN_W + KW - 1 + V * STRIDE_W;
    __global float *to = y + y_at + row * OUT_W;
    for (int j = 0; j < OUT_W; j += V) {
        float lanes[V];
        if (!ADAPTIVE && STRIDE_W <= 2 && low + j * STRIDE_W >= 0
            && high + j * STRIDE_W <= (long)(planes * plane)) {
            FLOATS sum = 0.0f;
            for (int h = top; h < bottom; ++h)
                for (int kw = 0; kw < KW; ++kw) {
                    const int left = j * STRIDE_W - PAD_W + kw;
                    const INTS w = COUNTED * STRIDE_W + left;
                    __global const float *p = x + x_at + ((long)image + (long)h * IN_W + left);
                    const FLOATS v = STRIDE_W == 1 ? LOAD_V(0, p) : EVEN_V(p);
                    sum += select((FLOATS)0.0f, v, w >= 0 && w < IN_W);
                }
            STORE_V(sum, 0, lanes);
        } else {
            for (int l = 0; l < V && j + l < OUT_W; ++l) {
                const int left = max(ALONG_W(FIRST, j + l), 0), right = min(ALONG_W(LAST, j + l), IN_W);
                float sum = 0.0f;
                for (int h = top; h < bottom; ++h)
                    for (int w = left; w < right; ++w) sum += x[x_at + image + (size_t)h * IN_W + w];
                lanes[l] = sum;
            }
        }
        for (int l = 0; l < V && j + l < OUT_W; ++l) {
            const int from_w = ALONG_W(FIRST, j + l), to_w = ALONG_W(LAST, j + l);
            const int whole = (to_h - from_h) * (to_w - from_w);
            const int real = (bottom - top) * (min(to_w, IN_W) - max(from_w, 0));
            to[j + l] = lanes[l] / (DIVISOR != 0 ? DIVISOR : PAD_COUNTS ? whole : real);
        }
    }
}

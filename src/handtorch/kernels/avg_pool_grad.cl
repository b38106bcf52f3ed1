// avg_pool_grad: dx = the sum of dy / (what avg_pool divides by) over the windows that hold this element.
// dy f32 [planes][OUT_H][OUT_W], dx f32 [planes][IN_H][IN_W]; dx may not overlap dy. See avg_pool for
// the windows.
// Item = one row of dx.  Elements STRIDE_W apart lie in neighbouring windows: V of them at a time,
// where that does not leave dy.
// Dimension 0: planes x IN_H.  Local memory: none.  Work-group: 1.  V: 4 or 8.
#ifndef V
#define V 4
#define ADAPTIVE 0
#endif
#define LOAD_V HT_CAT(vl, HT_CAT(oad, V))
#define STORE_V HT_CAT(vs, HT_CAT(tore, V))
#define FLOATS VEC(float, V)
#define INTS VEC(int, V)
#if V == 8
#define COUNTED (int8)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define COUNTED (int4)(0, 1, 2, 3)
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
// TYPE: int, or its vectors, spelt out because Oclgrind misreads min(vector, number).
#define SHARE(TYPE, from_w, to_w) (DIVISOR != 0 ? (TYPE)DIVISOR \
    : PAD_COUNTS ? (to_h - from_h) * (to_w - from_w) \
    : (min(to_h, IN_H) - max(from_h, 0)) * (min(to_w, (TYPE)IN_W) - max(from_w, (TYPE)0)))
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void avg_pool_grad(__global const float *dy, const uint dy_at, __global float *dx, const uint dx_at,
                   const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                   const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
                   const int PAD_H, const int PAD_W, const int PAD_COUNTS, const int DIVISOR) {
    const size_t row = get_global_id(0), image = row / IN_H * OUT_H * OUT_W;
    const int h = row % IN_H;
#if ADAPTIVE
    const int first = h * OUT_H / IN_H, last = (h * OUT_H + OUT_H - 1) / IN_H;
#else
    const int first = max((h + PAD_H - KH + STRIDE_H) / STRIDE_H, 0);
    const int last = min((h + PAD_H) / STRIDE_H, OUT_H - 1), more = (KW - 1) / STRIDE_W;
    const long total = (long)(get_global_size(0) / IN_H) * OUT_H * OUT_W;
#endif
    __global float *to = dx + dx_at + row * IN_W;
    for (int rest = 0; rest < STRIDE_W; ++rest)
        for (int j = 0; j * STRIDE_W + rest < IN_W; j += V) {
            float lanes[V];
#if !ADAPTIVE
            const int left = (rest + PAD_W) / STRIDE_W - more + j;
            if ((long)image + first * OUT_W + left >= 0
                && (long)image + last * OUT_W + left + more + V <= total) {
                FLOATS sum = 0.0f;
                for (int oh = first; oh <= last; ++oh) {
                    const int from_h = ALONG_H(FIRST, oh), to_h = ALONG_H(LAST, oh);
                    for (int ow = left; ow <= left + more; ++ow) {
                        const INTS w = COUNTED + ow, from_w = ALONG_W(FIRST, w);
                        const INTS to_w = min(from_w + KW, (INTS)(IN_W + PAD_W));
                        const INTS own = (COUNTED + j) * STRIDE_W + rest;
                        const INTS in = w >= 0 && w < OUT_W && own < to_w;
                        const FLOATS g = LOAD_V(0, dy + dy_at + ((long)image + oh * OUT_W + ow));
                        const INTS share = SHARE(INTS, from_w, to_w);
                        sum += select((FLOATS)0.0f, g / HT_CAT(convert_float, V)(share), in);
                    }
                }
                STORE_V(sum, 0, lanes);
            } else
#endif
            for (int l = 0; l < V && (j + l) * STRIDE_W + rest < IN_W; ++l) {
                const int w = (j + l) * STRIDE_W + rest;
                float sum = 0.0f;
#if ADAPTIVE
                const int first_w = w * OUT_W / IN_W, last_w = (w * OUT_W + OUT_W - 1) / IN_W;
#else
                const int first_w = max((w + PAD_W - KW + STRIDE_W) / STRIDE_W, 0);
                const int last_w = min((w + PAD_W) / STRIDE_W, OUT_W - 1);
#endif
                for (int oh = first; oh <= last; ++oh) {
                    const int from_h = ALONG_H(FIRST, oh), to_h = ALONG_H(LAST, oh);
                    for (int ow = first_w; ow <= last_w; ++ow) {
                        const int from_w = ALONG_W(FIRST, ow), to_w = ALONG_W(LAST, ow);
                        sum += dy[dy_at + image + oh * OUT_W + ow] / SHARE(int, from_w, to_w);
                    }
                }
                lanes[l] = sum;
            }
            for (int l = 0; l < V && (j + l) * STRIDE_W + rest < IN_W; ++l)
                to[(j + l) * STRIDE_W + rest] = lanes[l];
        }
}

// max_pool: y = the largest x of each window, index = where in its plane of x that lies (the first of
// equals; NaN is larger than all, the last of them wins, as in torch).
// x f32 [planes][IN_H][IN_W], y f32 and index i32 [planes][OUT_H][OUT_W]; no operand overlaps another.
// Item = one row of y, V neighbours at a time where strides of 1 or 2 let them be read as vectors
// without leaving x.  Dimension 0: planes x OUT_H.  Local memory: none.  Work-group: 1.  V: 4 or 8.
#ifndef V
#define V 4
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
#define TAKE(v, in, where) taken = (in) && (at < 0 || v > best || isnan(v)); \
    best = select(best, v, taken); at = select(at, where, taken);
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void max_pool(__global const float *x, const uint x_at, __global float *y, const uint y_at,
              __global int *index, const uint index_at,
              const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
              const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
              const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W) {
    const size_t row = get_global_id(0), plane = (size_t)IN_H * IN_W;
    const size_t planes = get_global_size(0) / OUT_H, image = row / OUT_H * plane;
    const int top = (int)(row % OUT_H) * STRIDE_H - PAD_H;
    const long low = (long)image - PAD_W;
    const long high = low + (long)plane - IN_W + (KW - 1) * DIL_W + V * STRIDE_W;
    for (int j = 0; j < OUT_W; j += V) {
        __global float *to = y + y_at + row * OUT_W + j;
        __global int *place = index + index_at + row * OUT_W + j;
        const int left = j * STRIDE_W - PAD_W;
        if (STRIDE_W <= 2 && j + V <= OUT_W && low + j * STRIDE_W >= 0
            && high + j * STRIDE_W <= (long)(planes * plane)) {
            FLOATS best = -INFINITY;
            INTS at = -1, taken;
            for (int kh = 0; kh < KH; ++kh) {
                const int h = top + kh * DIL_H;
                if (h < 0 || h >= IN_H) continue;
                for (int kw = 0; kw < KW; ++kw) {
                    const INTS w = COUNTED * STRIDE_W + (left + kw * DIL_W);
                    __global const float *p = x + x_at
                        + ((long)image + (long)h * IN_W + left + kw * DIL_W);
                    const FLOATS v = STRIDE_W == 1 ? LOAD_V(0, p) : EVEN_V(p);
                    TAKE(v, w >= 0 && w < IN_W, w + h * IN_W)
                }
            }
            STORE_V(best, 0, to);
            STORE_V(at, 0, place);
            continue;
        }
        for (int l = 0; l < V && j + l < OUT_W; ++l) {
            float best = -INFINITY;
            int at = -1, taken;
            for (int kh = 0; kh < KH; ++kh) {
                const int h = top + kh * DIL_H;
                if (h < 0 || h >= IN_H) continue;
                for (int kw = 0; kw < KW; ++kw) {
                    const int w = left + l * STRIDE_W + kw * DIL_W;
                    const float v = x[x_at + image + (size_t)h * IN_W + clamp(w, 0, IN_W - 1)];
                    TAKE(v, w >= 0 && w < IN_W, w + h * IN_W)
                }
            }
            to[l] = best;
            place[l] = at;
        }
    }
}

// max_pool: y = the largest x of each window, index = where in its plane of x that lies (the first of
// equals; NaN is larger than all, the last of them wins, as in torch).
// x f32 [planes][IN_H][IN_W][DEEP], y f32 and index i32 [planes][OUT_H][OUT_W][DEEP]; no operand
// overlaps another.  V must divide DEEP.
// Item = one row of y, V channels.  Dimensions: DEEP / V, planes x OUT_H.  Local memory: none.
// Work-group: 1.
#ifndef V
#define V 4
#endif
#define FLOATS VEC(float, V)
#define INTS VEC(int, V)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void max_pool(__global const float *x, const uint x_at, __global float *y, const uint y_at,
              __global int *index, const uint index_at, const int DEEP,
              const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
              const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
              const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W) {
    const size_t first = get_global_id(0) * V, row = get_global_id(1), deep = DEEP;
    __global const float *image = x + x_at + row / OUT_H * IN_H * IN_W * deep + first;
    const int top = (int)(row % OUT_H) * STRIDE_H - PAD_H;
    size_t to = row * OUT_W * deep + first;
    for (int ow = 0; ow < OUT_W; ++ow, to += deep) {
        FLOATS best = -INFINITY;
        INTS at = -1;
        for (int kh = 0; kh < KH; ++kh) {
            const int h = top + kh * DIL_H;
            if (h < 0 || h >= IN_H) continue;
            for (int kw = 0; kw < KW; ++kw) {
                const int w = ow * STRIDE_W - PAD_W + kw * DIL_W;
                if (w < 0 || w >= IN_W) continue;
                const FLOATS v = LOAD_V(0, image + ((size_t)h * IN_W + w) * deep);
                const INTS taken = at < 0 || v > best || isnan(v);
                best = select(best, v, taken);
                at = select(at, (INTS)(h * IN_W + w), taken);
            }
        }
        STORE_V(best, 0, y + y_at + to);
        STORE_V(at, 0, index + index_at + to);
    }
}

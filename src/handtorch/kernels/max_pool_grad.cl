// max_pool_grad: dx = the sum of dy over the windows whose largest element this is.
// dy f32 and index i32 [planes][OUT_H][OUT_W] (see max_pool), dx f32 [planes][IN_H][IN_W]; no operand
// overlaps another.  REACH = (K - 1) DIL: how far a window goes beyond its first element.
// Item = one row of dx; each element looks at the windows around it.  Elements STRIDE_W apart look at
// neighbours: V of them at a time, where that does not leave dy.
// Dimension 0: planes x IN_H.  Local memory: none.  Work-group: 1.  V: 4 or 8.
#ifndef V
#define V 4
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
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void max_pool_grad(__global const float *dy, const uint dy_at,
                   __global const int *index, const uint index_at,
                   __global float *dx, const uint dx_at,
                   const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                   const int STRIDE_H, const int STRIDE_W, const int PAD_H, const int PAD_W,
                   const int REACH_H, const int REACH_W) {
    const size_t row = get_global_id(0), image = row / IN_H * OUT_H * OUT_W;
    const long total = (long)(get_global_size(0) / IN_H) * OUT_H * OUT_W;
    const int h = row % IN_H, more = REACH_W / STRIDE_W;
    const int last = min((h + PAD_H) / STRIDE_H, OUT_H - 1);
    const int first = max((h + PAD_H - REACH_H + STRIDE_H - 1) / STRIDE_H, 0);
    __global float *to = dx + dx_at + row * IN_W;
    for (int rest = 0; rest < STRIDE_W; ++rest)
        for (int j = 0; j * STRIDE_W + rest < IN_W; j += V) {
            const int left = (rest + PAD_W) / STRIDE_W - more + j;
            float lanes[V];
            if ((long)image + first * OUT_W + left >= 0
                && (long)image + last * OUT_W + left + more + V <= total) {
                const INTS own = (COUNTED + j) * STRIDE_W + (rest + h * IN_W);
                FLOATS sum = 0.0f;
                for (int oh = first; oh <= last; ++oh)
                    for (int ow = left; ow <= left + more; ++ow) {
                        const long at = (long)image + oh * OUT_W + ow;
                        const INTS w = COUNTED + ow;
                        const INTS in = w >= 0 && w < OUT_W && LOAD_V(0, index + index_at + at) == own;
                        sum += select((FLOATS)0.0f, LOAD_V(0, dy + dy_at + at), in);
                    }
                STORE_V(sum, 0, lanes);
            } else {
                for (int l = 0; l < V && (j + l) * STRIDE_W + rest < IN_W; ++l) {
                    const int own = (j + l) * STRIDE_W + rest + h * IN_W;
                    float sum = 0.0f;
                    for (int oh = first; oh <= last; ++oh)
                        for (int w = max(left + l, 0); w <= min(left + l + more, OUT_W - 1); ++w) {
                            const size_t at = image + oh * OUT_W + w;
                            if (index[index_at + at] == own) sum += dy[dy_at + at];
                        }
                    lanes[l] = sum;
                }
            }
            for (int l = 0; l < V && (j + l) * STRIDE_W + rest < IN_W; ++l)
                to[(j + l) * STRIDE_W + rest] = lanes[l];
        }
}

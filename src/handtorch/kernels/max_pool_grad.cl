// max_pool_grad: dx = the sum of dy over the windows whose largest element this is.
// dy f32 and index i32 [planes][OUT_H][OUT_W][DEEP] (see max_pool), dx f32
// [planes][IN_H][IN_W][DEEP]; no operand overlaps another.  V must divide DEEP and STRIP.
// REACH = (K - 1) DIL: how far a window goes beyond its first element.
// FAR: how many windows ahead dy and index are asked for, 0 for never.
// Item = TAKE of the ROWS = planes x IN_H rows of dx, STRIP channels; each element looks at the
// windows around it, which are found once for all channels.  Dimensions: DEEP / STRIP, ROWS / TAKE,
// both rounded up.  Local memory: none.  Work-group: 1.
#ifndef V
#define V 4
#define FAR 0
#endif
#define FLOATS VEC(float, V)
#define INTS VEC(int, V)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void max_pool_grad(__global const float *dy, const uint dy_at,
                   __global const int *index, const uint index_at,
                   __global float *dx, const uint dx_at, const int ROWS, const int TAKE,
                   const int DEEP, const int STRIP, const int IN_H, const int IN_W, const int OUT_H,
                   const int OUT_W, const int STRIDE_H, const int STRIDE_W, const int PAD_H,
                   const int PAD_W, const int REACH_H, const int REACH_W) {
    const size_t deep = DEEP, from = get_global_id(0) * STRIP, to = min(from + STRIP, deep);
    const size_t begin = get_global_id(1) * TAKE, end = min(begin + TAKE, (size_t)ROWS);
    for (size_t row = begin; row < end; ++row) {
        const int h = row % IN_H, last_h = min((h + PAD_H) / STRIDE_H, OUT_H - 1);
        const int first_h = max((h + PAD_H - REACH_H + STRIDE_H - 1) / STRIDE_H, 0);
        const size_t image = row / IN_H * OUT_H * OUT_W * deep;
        __global const float *g = dy + dy_at + image;
        __global const int *chosen = index + index_at + image;
        __global float *out = dx + dx_at + row * IN_W * deep;
        for (int w = 0; w < IN_W; ++w, out += deep) {
            const int last_w = min((w + PAD_W) / STRIDE_W, OUT_W - 1);
            const int first_w = max((w + PAD_W - REACH_W + STRIDE_W - 1) / STRIDE_W, 0);
            const INTS own = h * IN_W + w;
            for (size_t c = from; c < to; c += V) {
                FLOATS sum = 0.0f;
#if FAR
                const size_t far = (last_h * OUT_W + last_w + FAR) * deep + c;
                AHEAD(g + far);
                AHEAD(chosen + far);
#endif
                for (int oh = first_h; oh <= last_h; ++oh)
                    for (int ow = first_w; ow <= last_w; ++ow) {
                        const size_t at = (oh * OUT_W + ow) * deep + c;
                        const INTS mine = LOAD_V(0, chosen + at) == own;
                        sum += select((FLOATS)0.0f, LOAD_V(0, g + at), mine);
                    }
                STORE_V(sum, 0, out + c);
            }
        }
    }
}

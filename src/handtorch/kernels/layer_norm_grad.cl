// layer_norm_grad: with h = (x - mean) * scale and v = g [* w], dx = scale * (v - avg(v) - h * avg(v * h))
// g, x, dx: f32 [ROWS][COLUMNS]; mean, scale: f32 [ROWS]; w: f32 [COLUMNS] (WEIGHTED).
// Item = one row, two sweeps. Aliasing: dx may be g. Local memory: none. WG: 1.
#ifndef WEIGHTED
#define WEIGHTED 0
#endif
#if WEIGHTED
#define TIMES16(c) * vload16(0, w + w_at + (c))
#define TIMES(c) * w[w_at + (c)]
#else
#define TIMES16(c)
#define TIMES(c)
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layer_norm_grad(__global const float *g, const uint g_at, __global const float *x,
                     const uint x_at, __global const float *mean, const uint mean_at,
                     __global const float *scale, const uint scale_at,
#if WEIGHTED
                     __global const float *w, const uint w_at,
#endif
                     __global float *dx, const uint dx_at, const int COLUMNS) {
    const size_t row = get_global_id(0), columns = COLUMNS, at = row * columns;
    __global const float *pg = g + g_at + at, *px = x + x_at + at;
    __global float *q = dx + dx_at + at;
    const float middle = mean[mean_at + row], by = scale[scale_at + row];
    float16 sums = 0.0f, products = 0.0f;
    size_t c = 0;
    for (; c + 16 <= columns; c += 16) {
        const float16 v = vload16(0, pg + c) TIMES16(c);
        sums += v;
        products += v * ((vload16(0, px + c) - middle) * by);
    }
    float sum = LANE_SUM16(sums), product = LANE_SUM16(products);
    for (; c < columns; c++) {
        const float v = pg[c] TIMES(c);
        sum += v;
        product += v * ((px[c] - middle) * by);
    }
    sum /= (float)COLUMNS;
    product /= (float)COLUMNS;
    for (c = 0; c + 16 <= columns; c += 16) {
        const float16 v = vload16(0, pg + c) TIMES16(c), h = (vload16(0, px + c) - middle) * by;
        vstore16((v - sum - h * product) * by, 0, q + c);
    }
    for (; c < columns; c++) {
        const float v = pg[c] TIMES(c), h = (px[c] - middle) * by;
        q[c] = (v - sum - h * product) * by;
    }
}

// norm_grad_columns: sums of g * (x - mean) * scale and of g over the k-th TAKE rows, parts[k][0..1][c]
// g, x: f32 [ROWS][CHANNELS]; mean, scale: f32 [CHANNELS], or [ROWS] (BY_ROW);
// parts: f32 [chunks][2][CHANNELS].  V divides CHANNELS. Item = V columns of one chunk. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef V
#define V 4
#define BY_ROW 0
#define GROUP 16
#endif
#define FV VEC(float, V)
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_grad_columns(__global const float *g, const uint g_at, __global const float *x,
                       const uint x_at, __global const float *mean, const uint mean_at,
                       __global const float *scale, const uint scale_at, __global float *parts,
                       const uint parts_at, const int ROWS, const int CHANNELS, const int TAKE) {
    const size_t c = get_global_id(0) * V, k = get_global_id(1), channels = CHANNELS;
    if (c >= channels) return;                   // the last group may hang over the edge
    const size_t first = k * TAKE, last = min(first + TAKE, (size_t)ROWS);
    __global const float *pg = g + g_at + c, *px = x + x_at + c;
    FV products = 0.0f, sums = 0.0f;
#if !BY_ROW
    const FV middle = VLOAD(V)(0, mean + mean_at + c), by = VLOAD(V)(0, scale + scale_at + c);
#endif
    for (size_t n = first; n < last; n++) {
        const FV v = VLOAD(V)(0, pg + n * channels), u = VLOAD(V)(0, px + n * channels);
        sums += v;
#if BY_ROW
        products += v * ((u - mean[mean_at + n]) * scale[scale_at + n]);
#else
        products += v * ((u - middle) * by);
#endif
    }
    __global float *q = parts + parts_at + k * 2 * channels + c;
    VSTORE(V)(products, 0, q);
    VSTORE(V)(sums, 0, q + channels);
}

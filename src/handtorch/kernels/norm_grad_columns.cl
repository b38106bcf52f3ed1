// norm_grad_columns: sums of g * (x - mean) * scale and of g over the k-th TAKE rows, parts[k][0..1][c]
// g, x: f32 [ROWS][CHANNELS]; mean, scale: f32 [CHANNELS], or [ROWS] (BY_ROW);
// parts: f32 [chunks][2][CHANNELS].  V divides CHANNELS and STRIP.
// 8 rows at a time are summed in registers, then join the sums in parts: g and x are read once, in the
// order in which they lie.
// Item = STRIP columns of one chunk. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef V
#define V 4
#define BY_ROW 0
#define GROUP 16
#endif
#define FV VEC(float, V)
#if BY_ROW
#define CENTRE(n) mean[mean_at + (n)]
#define SCALED(v, n) ((v) * scale[scale_at + (n)])
#define WHOLE(v) (v)
#else
#define CENTRE(n) VLOAD(V)(0, mean + mean_at + c)
#define SCALED(v, n) (v)
#define WHOLE(v) ((v) * VLOAD(V)(0, scale + scale_at + c))
#endif
#define TAKE_ROW(i) { \
    const FV v = VLOAD(V)(0, pg + (i) * channels + c), u = VLOAD(V)(0, px + (i) * channels + c); \
    sums += v; \
    products += v * SCALED(u - CENTRE(n + (i)), n + (i)); \
}
#define JOIN() \
    if (n > first) { \
        VSTORE(V)(WHOLE(products) + VLOAD(V)(0, q + c), 0, q + c); \
        VSTORE(V)(sums + VLOAD(V)(0, q + channels + c), 0, q + channels + c); \
    } else { \
        VSTORE(V)(WHOLE(products), 0, q + c); \
        VSTORE(V)(sums, 0, q + channels + c); \
    }
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_grad_columns(__global const float *g, const uint g_at, __global const float *x,
                       const uint x_at, __global const float *mean, const uint mean_at,
                       __global const float *scale, const uint scale_at, __global float *parts,
                       const uint parts_at, const int ROWS, const int CHANNELS, const int TAKE,
                       const int STRIP) {
    const size_t from = get_global_id(0) * STRIP, k = get_global_id(1), channels = CHANNELS;
    if (from >= channels) return;                // the last group may hang over the edge
    const size_t to = min(from + STRIP, channels);
    const size_t first = k * TAKE, last = min(first + TAKE, (size_t)ROWS);
    __global const float *pg = g + g_at + first * channels, *px = x + x_at + first * channels;
    __global float *q = parts + parts_at + k * 2 * channels;
    size_t n = first;
    for (; n + 8 <= last; n += 8, pg += 8 * channels, px += 8 * channels) {
        for (size_t c = from; c < to; c += V) {
            FV products = 0.0f, sums = 0.0f;
            EACH_ROW(8, TAKE_ROW)
            JOIN()
        }
    }
    for (; n < last; n++, pg += channels, px += channels) {
        for (size_t c = from; c < to; c += V) {
            FV products = 0.0f, sums = 0.0f;
            TAKE_ROW(0)
            JOIN()
        }
    }
}

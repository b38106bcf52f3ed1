// norm_fold: the chunks' means and squared deviations -> each channel's mean and 1 / sqrt(variance + EPS)
// parts: f32 [CHUNKS][2][CHANNELS] of norm_stats; mean, scale: f32 [CHANNELS].
// TRACK: the running mean and (unbiased) variance move by MOMENTUM, in place.
// V divides CHANNELS. Item = V channels. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef TRACK
#define TRACK 0
#define V 4
#define GROUP 16
#endif
#define FV VEC(float, V)
// Each chunk `k`, of COUNT elements. Counted up: divisions would cost more than the sums.
#define EACH_CHUNK \
    for (size_t n = 0, k = 0; n < planes; n += take) \
        for (size_t s = 0; s < size; s += piece, k++)
#define COUNT ((float)((min(n + take, planes) - n) * (min(s + piece, size) - s)))
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_fold(__global const float *parts, const uint parts_at, __global float *mean,
               const uint mean_at, __global float *scale, const uint scale_at,
#if TRACK
               __global float *running_mean, const uint running_mean_at,
               __global float *running_var, const uint running_var_at,
#endif
               const int PLANES, const int CHANNELS, const int SIZE, const int TAKE,
               const int PIECE, const float EPS, const float MOMENTUM) {
    const size_t c = get_global_id(0) * V, channels = CHANNELS;
    const size_t planes = PLANES, size = SIZE, take = TAKE, piece = PIECE;
    if (c >= channels) return;                   // the last group may hang over the edge
    __global const float *p = parts + parts_at + c;
    const FV start = VLOAD(V)(0, p);
    const float all = (float)(planes * size);
    FV shift = 0.0f, squares = 0.0f;
    EACH_CHUNK shift += COUNT * (VLOAD(V)(0, p + k * 2 * channels) - start);
    const FV middle = start + shift / all;
    EACH_CHUNK {
        const FV d = VLOAD(V)(0, p + k * 2 * channels) - middle;
        squares += VLOAD(V)(0, p + (k * 2 + 1) * channels) + COUNT * d * d;
    }
    VSTORE(V)(middle, 0, mean + mean_at + c);
    VSTORE(V)(1.0f / sqrt(squares / all + EPS), 0, scale + scale_at + c);
#if TRACK
    __global float *m = running_mean + running_mean_at + c, *v = running_var + running_var_at + c;
    const float kept = 1.0f - MOMENTUM;
    VSTORE(V)(kept * VLOAD(V)(0, m) + MOMENTUM * middle, 0, m);
    VSTORE(V)(kept * VLOAD(V)(0, v) + MOMENTUM * (squares / (all - 1.0f)), 0, v);
#endif
}

// norm_fold: the chunks' means and squared deviations -> each channel's mean and 1 / sqrt(variance + EPS)
// parts: f32 [CHUNKS][2][CHANNELS] of norm_stats; mean, scale: f32 [CHANNELS].
// TRACK: the running mean and (unbiased) variance move by MOMENTUM, in place.
// Item = one channel. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef TRACK
#define TRACK 0
#define GROUP 16
#endif
#define COUNT(k) ((float)((min((k) / pieces * take + take, planes) - (k) / pieces * take) * \
                          (min((k) % pieces * piece + piece, size) - (k) % pieces * piece)))
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_fold(__global const float *parts, const uint parts_at, __global float *mean,
               const uint mean_at, __global float *scale, const uint scale_at,
#if TRACK
               __global float *running_mean, const uint running_mean_at,
               __global float *running_var, const uint running_var_at,
#endif
               const int PLANES, const int CHANNELS, const int SIZE, const int TAKE,
               const int PIECE, const int CHUNKS, const float EPS, const float MOMENTUM) {
    const size_t c = get_global_id(0), channels = CHANNELS, chunks = CHUNKS;
    const size_t planes = PLANES, size = SIZE, take = TAKE, piece = PIECE;
    const size_t pieces = (size + piece - 1) / piece;
    if (c >= channels) return;                   // the last group may hang over the edge
    __global const float *p = parts + parts_at + c;
    const float start = p[0], all = (float)(planes * size);
    float shift = 0.0f, squares = 0.0f;
    for (size_t k = 0; k < chunks; k++) shift += COUNT(k) * (p[k * 2 * channels] - start);
    const float middle = start + shift / all;
    for (size_t k = 0; k < chunks; k++) {
        const float d = p[k * 2 * channels] - middle;
        squares += p[(k * 2 + 1) * channels] + COUNT(k) * d * d;
    }
    mean[mean_at + c] = middle;
    scale[scale_at + c] = 1.0f / sqrt(squares / all + EPS);
#if TRACK
    const float kept = 1.0f - MOMENTUM;
    running_mean[running_mean_at + c] = kept * running_mean[running_mean_at + c] + MOMENTUM * middle;
    running_var[running_var_at + c] =
        kept * running_var[running_var_at + c] + MOMENTUM * (squares / (all - 1.0f));
#endif
}

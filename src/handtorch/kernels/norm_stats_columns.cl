// norm_stats_columns: norm_stats for planes of one element    x: f32 [PLANES][CHANNELS]
// parts: f32 [chunks][2][CHANNELS]; a chunk is TAKE rows.  V divides CHANNELS.
// Item = V channels of one chunk, two sweeps. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef V
#define V 4
#define GROUP 16
#endif
#define FV VEC(float, V)
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_stats_columns(__global const float *x, const uint x_at, __global float *parts,
                        const uint parts_at, const int PLANES, const int CHANNELS,
                        const int TAKE) {
    const size_t c = get_global_id(0) * V, k = get_global_id(1), channels = CHANNELS;
    if (c >= channels) return;                   // the last group may hang over the edge
    const size_t first = k * TAKE, last = min(first + TAKE, (size_t)PLANES);
    __global const float *p = x + x_at + c;
    const float count = (float)(last - first);
    FV sum = 0.0f, left = 0.0f, squares = 0.0f;
    for (size_t n = first; n < last; n++) sum += VLOAD(V)(0, p + n * channels);
    const FV middle = sum / count;
    for (size_t n = first; n < last; n++) {
        const FV d = VLOAD(V)(0, p + n * channels) - middle;
        left += d;
        squares += d * d;
    }
    const FV rest = left / count;
    __global float *q = parts + parts_at + k * 2 * channels + c;
    VSTORE(V)(middle + rest, 0, q);
    VSTORE(V)(squares - rest * rest * count, 0, q + channels);
}

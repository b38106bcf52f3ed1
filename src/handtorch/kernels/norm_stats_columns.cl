// norm_stats_columns: norm_stats for planes of one element    x: f32 [PLANES][CHANNELS]
// parts: f32 [chunks][2][CHANNELS]; a chunk is TAKE rows.  V divides CHANNELS and STRIP.
// 8 rows at a time are held in registers: their mean and squared deviations join those of the rows
// before them, which wait in parts. All is measured from the chunk's first row, so that nothing
// cancels, and x is read once, in the order in which it lies.
// Item = STRIP channels of one chunk. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef V
#define V 4
#define GROUP 16
#endif
#define FV VEC(float, V)
#define LOAD(i) const FV v##i = VLOAD(V)(0, p + (i) * channels + c) - start;
#define AWAY(i) const FV d##i = v##i - middle;
#define SQUARE(i) squares += d##i * d##i;
// `squares` and `middle` of `more` rows join what `before` rows gave.
#define JOIN(more) \
    FV mean = 0.0f, sum = 0.0f; \
    if (before > 0.0f) { \
        mean = VLOAD(V)(0, q + c); \
        sum = VLOAD(V)(0, q + channels + c); \
    } \
    const FV far = middle - mean; \
    VSTORE(V)(mean + far * ((more) / (before + (more))), 0, q + c); \
    VSTORE(V)(sum + (squares + far * far * (before * (more) / (before + (more)))), 0, q + channels + c)
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_stats_columns(__global const float *x, const uint x_at, __global float *parts,
                        const uint parts_at, const int PLANES, const int CHANNELS,
                        const int TAKE, const int STRIP) {
    const size_t from = get_global_id(0) * STRIP, k = get_global_id(1), channels = CHANNELS;
    if (from >= channels) return;                // the last group may hang over the edge
    const size_t to = min(from + STRIP, channels);
    const size_t first = k * TAKE, last = min(first + TAKE, (size_t)PLANES);
    __global const float *zero = x + x_at + first * channels, *p = zero;
    __global float *q = parts + parts_at + k * 2 * channels;
    float before = 0.0f;
    size_t n = first;
    for (; n + 8 <= last; n += 8, before += 8.0f, p += 8 * channels) {
        for (size_t c = from; c < to; c += V) {
            const FV start = VLOAD(V)(0, zero + c);
            EACH_ROW(8, LOAD)
            const FV middle = (((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7))) * 0.125f;
            EACH_ROW(8, AWAY)
            FV squares = 0.0f;
            EACH_ROW(8, SQUARE)
            JOIN(8.0f);
        }
    }
    for (; n < last; n++, before += 1.0f, p += channels) {
        for (size_t c = from; c < to; c += V) {
            const FV middle = VLOAD(V)(0, p + c) - VLOAD(V)(0, zero + c), squares = 0.0f;
            JOIN(1.0f);
        }
    }
    for (size_t c = from; c < to; c += V)
        VSTORE(V)(VLOAD(V)(0, q + c) + VLOAD(V)(0, zero + c), 0, q + c);
}

// sum_axis: y[o][i] = sum over r of x[o][r][i]     x: f32 [OUTER][REDUCE][INNER], y: f32 [OUTER][INNER]
// Item = RUN neighbours i of one o, V at a time, the rest one by one; with RUN 1 neighbours read neighbours.
// Aliasing: none. Local memory: none. WG: GROUP x 1.
#ifndef GROUP
#define GROUP 16
#define V 1
#endif
#define FLOATS VEC(float, V)
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sum_axis(__global const float *x, const uint x_at, __global float *y, const uint y_at,
              const int REDUCE, const int INNER, const int RUN) {
    const size_t inner = INNER, o = get_global_id(1);
    size_t i = get_global_id(0) * RUN;
    const size_t end = min(i + RUN, inner);                // the last group may hang over the edge
    __global const float *from = x + x_at + o * REDUCE * inner;
    __global float *to = y + y_at + o * inner;
    for (; i + V <= end; i += V) {
        FLOATS sum = 0.0f;
        for (size_t r = 0; r < (size_t)REDUCE; ++r) sum += LOAD_V(0, from + r * inner + i);
        STORE_V(sum, 0, to + i);
    }
    for (; i < end; ++i) {
        float sum = 0.0f;
        for (size_t r = 0; r < (size_t)REDUCE; ++r) sum += from[r * inner + i];
        to[i] = sum;
    }
}

// sum_axis: y[o][i] = sum over r of x[o][r][i]     x: f32 [OUTER][REDUCE][INNER], y: f32 [OUTER][INNER]
// Item = one (o, i); neighbours read neighbours. Aliasing: none. Local memory: none. WG: GROUP x 1.
#ifndef GROUP
#define GROUP 16
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sum_axis(__global const float *x, const uint x_at, __global float *y, const uint y_at,
              const int REDUCE, const int INNER) {
    const size_t i = get_global_id(0), o = get_global_id(1);
    if (i >= (size_t)INNER) return;              // the last group may hang over the edge
    __global const float *p = x + x_at + o * REDUCE * INNER + i;
    float sum = 0.0f;
    for (int r = 0; r < REDUCE; r++) sum += p[(size_t)r * INNER];
    y[y_at + o * INNER + i] = sum;
}

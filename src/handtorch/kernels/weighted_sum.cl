// weighted_sum: y = sum(x) / n[0] (MEAN), or sum(x)     x: f32 [COUNT], n, y: f32 [1]
// One item, 16 sums side by side. Aliasing: none. Local memory: none. WG: 1.
#ifndef MEAN
#define MEAN 0
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void weighted_sum(__global const float *x, const uint x_at,
#if MEAN
                  __global const float *n, const uint n_at,
#endif
                  __global float *y, const uint y_at, const int COUNT) {
    __global const float *p = x + x_at;
    float16 sums = 0.0f;
    int r = 0;
    for (; r + 16 <= COUNT; r += 16) sums += vload16(0, p + r);
    float sum = LANE_SUM16(sums);
    for (; r < COUNT; r++) sum += p[r];
#if MEAN
    sum /= n[n_at];                              // no target at all: a loss of NaN, as in PyTorch
#endif
    y[y_at] = sum;
}

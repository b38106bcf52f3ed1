// count_targets: n = 1 / (number of targets other than IGNORE) if MEAN, else 1
// target: i32 [ROWS], n: f32 [1]. One item: counting takes less time than sharing it out. WG: 1.
#ifndef MEAN
#define MEAN 1
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void count_targets(__global const int *target, const uint target_at, __global float *n,
                   const uint n_at, const int ROWS, const int IGNORE) {
#if MEAN
    int count = 0;
    for (int r = 0; r < ROWS; r++) count += target[target_at + r] != IGNORE;
    n[n_at] = 1.0f / count;                      // no target at all: a loss of NaN, as in PyTorch
#else
    n[n_at] = 1.0f;
#endif
}

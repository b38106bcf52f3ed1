// nll_rows: loss[m][s] = -weight[t] * x[m][t][s] where t = target[m][s]; 0 where t is IGNORE, NaN
// where it is no class
// x: f32 [OUTER][CLASSES][INNER] (log-probabilities), target: i32, loss: f32 [OUTER][INNER], weight: f32
// [CLASSES] (WEIGHTED; else 1). Item = one target. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef WEIGHTED
#define WEIGHTED 0
#define GROUP 16
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void nll_rows(__global const float *x, const uint x_at, __global const int *target,
              const uint target_at,
#if WEIGHTED
              __global const float *weight, const uint weight_at,
#endif
              __global float *loss, const uint loss_at, const int COUNT, const int CLASSES,
              const int INNER, const int IGNORE) {
    const size_t row = get_global_id(0), inner = INNER;
    if (row >= (size_t)COUNT) return;            // the last group may hang over the edge
    const int t = target[target_at + row];
    float found = t == IGNORE ? 0.0f : NAN;
    if (t != IGNORE && t >= 0 && t < CLASSES) {
        found = -x[x_at + (row / inner * CLASSES + t) * inner + row % inner];
#if WEIGHTED
        found *= weight[weight_at + t];
#endif
    }
    loss[loss_at + row] = found;
}

// nll_grad: dx[m][c][s] = -g * weight[c] / n[0] where c is target[m][s], else 0; all 0 where the target
// is IGNORE, NaN where it is no class
// target: i32 [OUTER][INNER], dx: f32 [OUTER][CLASSES][INNER], weight: f32 [CLASSES] (WEIGHTED; else 1).
// g: f32 [1], or like target (EACH).  n: f32 [1] (MEAN; else 1).
// Item = one element of dx, along s (ALONG=1) or along c. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef WEIGHTED
#define WEIGHTED 0
#define EACH 0
#define MEAN 0
#define ALONG 0
#define GROUP 16
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void nll_grad(__global const float *g, const uint g_at, __global const int *target,
              const uint target_at,
#if WEIGHTED
              __global const float *weight, const uint weight_at,
#endif
#if MEAN
              __global const float *n, const uint n_at,
#endif
              __global float *dx, const uint dx_at, const int CLASSES, const int INNER,
              const int IGNORE) {
    const size_t inner = INNER, classes = CLASSES, m = get_global_id(2);
    const size_t c = get_global_id(ALONG), s = get_global_id(1 - ALONG);
    if (c >= classes || s >= inner) return;      // the last group may hang over the edge
    const size_t row = m * inner + s;
    const int t = target[target_at + row];
    float found = t == IGNORE || (t >= 0 && t < CLASSES) ? 0.0f : NAN;
    if (t != IGNORE && t == (int)c) {
        found = -g[g_at + row * EACH];
#if WEIGHTED
        found *= weight[weight_at + c];
#endif
#if MEAN
        found /= n[n_at];
#endif
    }
    dx[dx_at + (m * classes + c) * inner + s] = found;
}

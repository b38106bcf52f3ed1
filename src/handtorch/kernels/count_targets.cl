// count_targets: n[k] = sum of the weights of the targets of the k-th piece other than IGNORE
// target: i32 [ROWS], weight: f32 [CLASSES] (WEIGHTED; else each weighs 1), n: f32 [pieces].
// A target that is no class weighs NaN. Item = one piece. Aliasing: none. Local memory: none. WG: 1.
#ifndef WEIGHTED
#define WEIGHTED 0
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void count_targets(__global const int *target, const uint target_at,
#if WEIGHTED
                   __global const float *weight, const uint weight_at,
#endif
                   __global float *n, const uint n_at, const int ROWS, const int PIECE,
                   const int CLASSES, const int IGNORE) {
    const size_t k = get_global_id(0), piece = PIECE, last = min(k * piece + piece, (size_t)ROWS);
#if WEIGHTED
    float total = 0.0f;
    for (size_t r = k * piece; r < last;) {
        const size_t stop = min(r + 64, last);
        float run = 0.0f;                        // a sum of sums loses little
        for (; r < stop; r++) {
            const int t = target[target_at + r];
            if (t != IGNORE) run += t >= 0 && t < CLASSES ? weight[weight_at + t] : NAN;
        }
        total += run;
    }
    n[n_at + k] = total;
#else
    int total = 0;
    for (size_t r = k * piece; r < last; r++) total += target[target_at + r] != IGNORE;
    n[n_at + k] = (float)total;
#endif
}

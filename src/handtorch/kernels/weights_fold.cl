// weights_fold: what weights_grad left in parts, added up and turned: C0[m][n] = sum of parts[p][n][m] over p.
// parts f32 [PARTS][N][M] with N = N0 + N1 + SUMS; C0 f32 [M][N0], C1 f32 [M][N1] (if COUNT is 2), S f32 [M] (if
// SUMS). Item = one row n of the parts; the order of a sum is always the same. V must divide M.
// Aliasing: none. Local memory: none. WG: 1.
#ifndef COUNT
#define COUNT 2
#define SUMS 1
#define V 4
#endif
#define FLOATS VEC(float, V)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void weights_fold(__global const float *parts, const uint parts_at, __global float *C0, const uint C0_at,
#if COUNT == 2
                  __global float *C1, const uint C1_at,
#endif
#if SUMS
                  __global float *S, const uint S_at,
#endif
                  const int PARTS, const int M, const int N0, const int N1) {
    const size_t m = M, n = get_global_id(0), all = N0 + N1 + SUMS;
    __global float *to = C0 + C0_at + n;
    size_t stride = N0;
#if COUNT == 2
    if (n >= (size_t)N0) { to = C1 + C1_at + n - N0; stride = N1; }
#endif
#if SUMS
    if (n == all - 1) { to = S + S_at; stride = 1; }
#endif
    for (size_t i = 0; i < m; i += V) {
        FLOATS sum = 0.0f;
        for (size_t p = 0; p < (size_t)PARTS; ++p) sum += LOAD_V(0, parts + parts_at + (p * all + n) * m + i);
        float lanes[V];
        STORE_V(sum, 0, lanes);
        for (size_t v = 0; v < V; ++v) to[(i + v) * stride] = lanes[v];
    }
}

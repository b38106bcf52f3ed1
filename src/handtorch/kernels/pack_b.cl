// pack_b: B in panels of W columns, so that gemm_register (PB) reads one stream: P[p][k][w] = B[k][j+w]
// with j = min(p W, N - W): the last panel is moved left until it ends at N, as the tile that reads it.
// B f32 [K, N] (TB: [N, K]), P f32 [ceil(N/W)][K][W], row-major; P may not overlap B.  W must be <= N.
// Local memory: none.  Work-group: 1 panel x WGY rows; an item does KB rows of a panel.
#ifndef W
#define W 8
#define V 4
#define KB 16
#define TB 0
#define WGY 1
#endif
__kernel __attribute__((reqd_work_group_size(1, WGY, 1)))
void pack_b(__global const float *B, const uint B_at, __global float *P, const uint P_at,
            const int N, const int K) {
    const size_t n = N, p = get_global_id(0), k0 = get_global_id(1) * KB;
    if (k0 >= (size_t)K) return;                    // the last groups may hang over the edge
    const size_t j = min(p * W, n - W), end = min(k0 + KB, (size_t)K);
    __global float *to = P + P_at + (p * K + k0) * W;
    for (size_t k = k0; k < end; ++k, to += W) {
#if TB
        for (size_t w = 0; w < W; ++w) to[w] = B[B_at + (j + w) * K + k];
#else
        for (size_t w = 0; w < W; w += V) STORE_V(LOAD_V(0, B + B_at + k * n + j + w), 0, to + w);
#endif
    }
}

// gemm_tiled_vector: C = A B through local memory and with vectors: a group computes TS x TS outputs
// and walks along K in tiles of TS; each item loads V elements of A's and of B's tile and computes V
// neighbouring outputs.
// A f32 [M, K], B f32 [K, N], C f32 [M, N], row-major; C may not overlap A or B.
// Outside the matrices the tiles hold zeros, so every item takes part in every barrier.
// Local memory: 2 TS TS floats.  Work-group: TS/V x TS (TS 32, V 4: a phone's limit of 256).
#ifndef TS
#define TS 32
#define V 4
#endif
__kernel __attribute__((reqd_work_group_size(TS / V, TS, 1)))
void gemm_tiled_vector(__global const float *A, const uint A_at,
                       __global const float *B, const uint B_at,
                       __global float *C, const uint C_at, const int M, const int N, const int K) {
    __local float a[TS * TS], b[TS * TS];
    const int x = get_local_id(0) * V, y = get_local_id(1);
    const size_t j = get_global_id(0) * V, i = get_global_id(1), m = M, n = N;
    VEC(float, V) sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TS) {
        __global const float *pa = A + A_at + i * K + k0 + x;
        __global const float *pb = B + B_at + (size_t)(k0 + y) * n + j;
        if (i < m && k0 + x + V <= K)
            VSTORE(V)(VLOAD(V)(0, pa), 0, a + y * TS + x);
        else
            for (int l = 0; l < V; ++l) a[y * TS + x + l] = i < m && k0 + x + l < K ? pa[l] : 0.0f;
        if (k0 + y < K && j + V <= n)
            VSTORE(V)(VLOAD(V)(0, pb), 0, b + y * TS + x);
        else
            for (int l = 0; l < V; ++l) b[y * TS + x + l] = k0 + y < K && j + l < n ? pb[l] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TS; ++k) {
            const VEC(float, V) w = a[y * TS + k];
            sum = fma(w, VLOAD(V)(0, b + k * TS + x), sum);
        }
        barrier(CLK_LOCAL_MEM_FENCE);               // before the next tile overwrites this one
    }
    if (i >= m || j >= n) return;
    __global float *c = C + C_at + i * n + j;
    if (j + V <= n) {
        VSTORE(V)(sum, 0, c);
        return;
    }
    float lanes[V];
    VSTORE(V)(sum, 0, lanes);
    for (size_t l = 0; l < n - j; ++l) c[l] = lanes[l];
}

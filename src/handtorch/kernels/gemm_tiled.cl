// gemm_tiled: C = A B through local memory: a group computes TS x TS outputs and walks along K in
// tiles of TS; each item loads one element of A's and one of B's tile and computes one output.
// A f32 [M, K], B f32 [K, N], C f32 [M, N], row-major; C may not overlap A or B.
// Outside the matrices the tiles hold zeros, so every item takes part in every barrier.
// Local memory: 2 TS TS floats.  Work-group: TS x TS (TS 16 is a phone's limit of 256).
#ifndef TS
#define TS 16
#endif
__kernel __attribute__((reqd_work_group_size(TS, TS, 1)))
void gemm_tiled(__global const float *A, const uint A_at, __global const float *B, const uint B_at,
                __global float *C, const uint C_at, const int M, const int N, const int K) {
    __local float a[TS][TS], b[TS][TS];
    const int x = get_local_id(0), y = get_local_id(1);
    const size_t j = get_global_id(0), i = get_global_id(1), m = M, n = N;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TS) {
        a[y][x] = i < m && k0 + x < K ? A[A_at + i * K + k0 + x] : 0.0f;
        b[y][x] = j < n && k0 + y < K ? B[B_at + (size_t)(k0 + y) * n + j] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TS; ++k) sum = fma(a[y][k], b[k][x], sum);
        barrier(CLK_LOCAL_MEM_FENCE);               // before the next tile overwrites this one
    }
    if (i < m && j < n) C[C_at + i * n + j] = sum;
}

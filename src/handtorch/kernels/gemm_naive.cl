// gemm_naive: C = A B, one work-item per output; the yardstick of the study `sgemm`.
// A f32 [M, K], B f32 [K, N], C f32 [M, N], row-major; C may not overlap A or B.
// Local memory: none.  Work-group: WGX columns x WGY rows.
#ifndef WGX
#define WGX 16
#define WGY 4
#endif
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void gemm_naive(__global const float *A, const uint A_at, __global const float *B, const uint B_at,
                __global float *C, const uint C_at, const int M, const int N, const int K) {
    const size_t j = get_global_id(0), i = get_global_id(1), n = N;
    if (i >= (size_t)M || j >= n) return;           // the last groups may hang over the edge
    __global const float *a = A + A_at + i * K, *b = B + B_at + j;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum = fma(a[k], b[k * n], sum);
    C[C_at + i * n + j] = sum;
}

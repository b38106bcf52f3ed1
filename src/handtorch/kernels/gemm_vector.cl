// gemm_vector: C = A B, V neighbouring outputs of a row per work-item, as one vector.
// A f32 [M, K], B f32 [K, N], C f32 [M, N], row-major; C may not overlap A or B.
// A last vector that would cross the right edge is done column by column.
// Local memory: none.  Work-group: WGX vectors x WGY rows.  V: 1, 2, 4, 8 or 16.
#ifndef V
#define V 4
#define WGX 4
#define WGY 16
#endif
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void gemm_vector(__global const float *A, const uint A_at, __global const float *B, const uint B_at,
                 __global float *C, const uint C_at, const int M, const int N, const int K) {
    const size_t j = get_global_id(0) * V, i = get_global_id(1), n = N;
    if (i >= (size_t)M || j >= n) return;           // the last groups may hang over the edge
    __global const float *a = A + A_at + i * K, *b = B + B_at + j;
    __global float *c = C + C_at + i * n + j;
    if (j + V <= n) {
        VEC(float, V) sum = 0.0f;
        for (int k = 0; k < K; ++k) {
            const VEC(float, V) x = a[k];
            sum = fma(x, VLOAD(V)(0, b + k * n), sum);
        }
        VSTORE(V)(sum, 0, c);
        return;
    }
    for (size_t l = 0; l < n - j; ++l) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum = fma(a[k], b[k * n + l], sum);
        c[l] = sum;
    }
}

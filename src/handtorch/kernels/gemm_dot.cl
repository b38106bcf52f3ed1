// gemm_dot: C = f(A Bt); an item computes R x 4 dot products with vectors of V along k.
//   f(x) = x, then + bias[j] if BIAS, then max(x, 0) if ACT is 1, then x * (y[i][j] > 0) if MASK.
// A f32 [M, K], B f32 [N, K], C f32 [M, N], bias f32 [N], y f32 [M, N], row-major; C may overlap no
// other operand.  Edges: rows and columns beyond the matrix read its last one and are not stored.
// Local memory: none.  Work-group: WGX row tiles x WGY column tiles; 1 x 1 on a CPU.  V: 4, 8 or 16.
#ifndef R
#define R 4
#define V 4
#define BIAS 0
#define ACT 0
#define MASK 0
#define WGX 1
#define WGY 1
#endif
#define FLOATS VEC(float, V)
#define ROW(r) __global const float *a##r = A + A_at + min(i + r, m - 1) * K; EACH_COL(4, ZERO, r)
#define ZERO(r, c) FLOATS s##r##_##c = 0.0f;
#define COLUMN(r, c) const size_t j##c = min(j + c, n - 1); \
    __global const float *b##c = B + B_at + j##c * K;
#define LOAD(r, c) const FLOATS w##c = VLOAD(V)(0, b##c + k);
#define MULTIPLY(r) { const FLOATS x = VLOAD(V)(0, a##r + k); EACH_COL(4, ADD, r) }
#define ADD(r, c) s##r##_##c = fma(x, w##c, s##r##_##c);
#define SUMS(r) float4 t##r = HT_CAT(FOUR_SUMS, V)(s##r##_0, s##r##_1, s##r##_2, s##r##_3);
#define REST(r) { const float4 x = a##r[k]; t##r = fma(x, w, t##r); }
#define FOUR(p) (float4)((p)[j0], (p)[j1], (p)[j2], (p)[j3])
#if BIAS
#define ADD_BIAS t += FOUR(bias + bias_at);
#else
#define ADD_BIAS
#endif
#if ACT
#define APPLY t = select(t, (float4)0.0f, t < 0.0f);           // keeps NaN, as torch does
#else
#define APPLY
#endif
#if MASK
#define APPLY_MASK t = select(t, (float4)0.0f, FOUR(y + y_at + row) <= 0.0f);
#else
#define APPLY_MASK
#endif
#define STORE_ROW(r) if (i + r < m) { \
        const size_t row = (i + r) * n; \
        float4 t = t##r; \
        ADD_BIAS APPLY APPLY_MASK \
        if (j + 4 <= n) vstore4(t, 0, C + C_at + row + j); \
        else { EACH_COL(3, STORE, r) } }
#define STORE(r, c) if (j + c < n) C[C_at + row + j + c] = t.s##c;
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void gemm_dot(__global const float *A, const uint A_at, __global const float *B, const uint B_at,
              __global float *C, const uint C_at,
#if BIAS
              __global const float *bias, const uint bias_at,
#endif
#if MASK
              __global const float *y, const uint y_at,
#endif
              const int M, const int N, const int K) {
    const size_t m = M, n = N, i = get_global_id(0) * R, j = get_global_id(1) * 4;
    if (i >= m || j >= n) return;                   // the last groups may hang over the edge
    EACH_ROW(R, ROW)
    EACH_COL(4, COLUMN, 0)
    int k = 0;
    for (; k + V <= K; k += V) { EACH_COL(4, LOAD, 0) EACH_ROW(R, MULTIPLY) }
    EACH_ROW(R, SUMS)
    for (; k < K; ++k) {
        const float4 w = (float4)(b0[k], b1[k], b2[k], b3[k]);
        EACH_ROW(R, REST)
    }
    EACH_ROW(R, STORE_ROW)
}

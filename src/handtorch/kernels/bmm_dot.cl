// bmm_dot: C[i] = A[i] Bt[i] for a batch of matrices; an item computes R x 4 dot products with vectors
// of V along k.
// A f32 [M, K], B f32 [N, K], C f32 [M, N], row-major; matrix i of A starts at i SA, of B at i SB (0:
// the same for all).  C overlaps no other operand.
// Edges: rows and columns beyond the matrix read its last one and are not stored.
// Local memory: none.  Work-group: WGX row tiles x WGY column tiles.  Dimension 2 is the batch.
#ifndef R
#define R 4
#define V 4
#define WGX 1
#define WGY 1
#endif
#define FLOATS VEC(float, V)
#define ROW(r) __global const float *a##r = A + A_at + one * SA + min(i + r, m - 1) * K; \
    EACH_COL(4, ZERO, r)
#define ZERO(r, c) FLOATS s##r##_##c = 0.0f;
#define COLUMN(r, c) __global const float *b##c = B + B_at + one * SB + min(j + c, n - 1) * K;
#define LOAD(r, c) const FLOATS w##c = VLOAD(V)(0, b##c + k);
#define MULTIPLY(r) { const FLOATS x = VLOAD(V)(0, a##r + k); EACH_COL(4, ADD, r) }
#define ADD(r, c) s##r##_##c = fma(x, w##c, s##r##_##c);
#define SUMS(r) float4 t##r = HT_CAT(FOUR_SUMS, V)(s##r##_0, s##r##_1, s##r##_2, s##r##_3);
#define REST(r) { const float4 x = a##r[k]; t##r = fma(x, w, t##r); }
#define STORE_ROW(r) if (i + r < m) { \
        __global float *c = C + C_at + one * m * n + (i + r) * n + j; \
        if (j + 4 <= n) vstore4(t##r, 0, c); \
        else { EACH_COL(3, STORE, r) } }
#define STORE(r, l) if (j + l < n) c[l] = t##r.s##l;
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void bmm_dot(__global const float *A, const uint A_at, __global const float *B, const uint B_at,
             __global float *C, const uint C_at, const int M, const int N, const int K, const uint SA,
             const uint SB) {
    const size_t m = M, n = N, i = get_global_id(0) * R, j = get_global_id(1) * 4;
    const size_t one = get_global_id(2);
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

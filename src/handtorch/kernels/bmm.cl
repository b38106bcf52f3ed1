// bmm: C[i] = A[i] B[i] for a batch of matrices; an item keeps R rows x NV vectors of V columns.
// A f32 [M, K] (TA: [K, M]), B f32 [K, N], C f32 [M, N], row-major; matrix i of A starts at i SA, of
// B at i SB (0: the same for all).  C overlaps no other operand.  W = NV V must be <= N.
// Edges: rows beyond M read row M-1 and are not stored; the last tile of columns is moved left until
// it ends at N, and stores only the columns that no other item owns.
// Local memory: none.  Work-group: WGX row tiles x WGY column tiles.  Dimension 2 is the batch.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define TA 0
#define WGX 1
#define WGY 1
#endif
#define W (NV * V)
#define FLOATS VEC(float, V)
#define ROW(r) const size_t a##r = min(i + r, m - 1) * A_ROW; EACH_COL(NV, ZERO, r)
#define ZERO(r, v) FLOATS c##r##_##v = 0.0f;
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b);
#define MULTIPLY(r) { const FLOATS x = a[a##r]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(x, w##v, c##r##_##v);
#define STORE_ROW(r) if (i + r < m) { __global float *c = C + at + r * n; EACH_COL(NV, STORE, r) }
#define STORE(r, v) if (j + v * V >= own) STORE_V(c##r##_##v, v, c); \
    else if (j + (v + 1) * V > own) { \
        float lanes[V]; \
        STORE_V(c##r##_##v, 0, lanes); \
        for (size_t l = own - j - v * V; l < V; ++l) c[v * V + l] = lanes[l]; \
    }
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void bmm(__global const float *A, const uint A_at, __global const float *B, const uint B_at,
         __global float *C, const uint C_at, const int M, const int N, const int K, const uint SA,
         const uint SB) {
    const size_t m = M, n = N, i = get_global_id(0) * R, own = get_global_id(1) * W;
    const size_t one = get_global_id(2);
    if (i >= m || own >= n) return;                 // the last groups may hang over the edge
    const size_t j = min(own, n - W);
#if TA
    const size_t A_ROW = 1, A_STEP = m;
#else
    const size_t A_ROW = K, A_STEP = 1;
#endif
    __global const float *a = A + A_at + one * SA;
    __global const float *b = B + B_at + one * SB + j;
    EACH_ROW(R, ROW)
    for (int k = 0; k < K; ++k) {
        EACH_COL(NV, LOAD, 0)
        EACH_ROW(R, MULTIPLY)
        a += A_STEP;
        b += n;
    }
    const size_t at = C_at + one * m * n + i * n + j;
    EACH_ROW(R, STORE_ROW)
}

// weights_grad: gradients of weights that share a factor, D^T X0, D^T X1 and the sums of D's columns, in parts.
// D f32 [K][M], X0 f32 [K][N0], X1 f32 [K][N1] (if COUNT is 2), parts f32 [ceil(K/ROWS)][N][M] with N = N0 + N1
// + SUMS: row n of part p is the sum of X[k][n] D[k] over ROWS k from p ROWS on, the last row that of D[k].
// Item = one part. It takes CHUNK rows of D at a time, which stay in the nearest cache, and adds what they give
// to what it has stored: so D comes from memory once. A tile is J rows of the part x MV vectors of V; the last
// tile of an X is moved left until it ends with it, and stores only the rows that no other owns. MV V must
// divide M, J must be <= N0 and N1. Aliasing: none. Local memory: none. WG: 1.
#ifndef COUNT
#define COUNT 2
#define SUMS 1
#define J 4
#define MV 2
#define V 4
#define CHUNK 32
#endif
#define FLOATS VEC(float, V)
#define ZERO (FLOATS)0.0f
#define START(j) EACH_COL(MV, START_V, j)
#define START_V(j, v) FLOATS c##j##_##v = begins ? ZERO : LOAD_V(v, to + j * m);
#define LOAD_D(j, v) const FLOATS d##v = LOAD_V(v, d);
#define ADD(j) { const FLOATS one = x[j]; EACH_COL(MV, ADD_V, j) }
#define ADD_V(j, v) c##j##_##v = fma(one, d##v, c##j##_##v);
#define STORE(j) if (n + j >= own) { EACH_COL(MV, STORE_TO, j) }
#define STORE_TO(j, v) STORE_V(c##j##_##v, v, to + j * m);
#define PRODUCTS(X, count, row) \
    for (size_t own = 0; own < (size_t)count; own += J) { \
        const size_t n = min(own, (size_t)count - J); \
        __global float *to = part + (row + n) * m + i; \
        __global const float *d = D + D_at + k0 * m + i, *x = X + X##_at + k0 * count + n; \
        EACH_ROW(J, START) \
        for (size_t k = k0; k < k1; ++k, d += m, x += count) { \
            EACH_COL(MV, LOAD_D, 0) \
            EACH_ROW(J, ADD) \
        } \
        EACH_ROW(J, STORE) \
    }
#define ADD_D(j, v) c##j##_##v += LOAD_V(v, d);
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void weights_grad(__global const float *D, const uint D_at, __global const float *X0, const uint X0_at,
#if COUNT == 2
                  __global const float *X1, const uint X1_at,
#endif
                  __global float *parts, const uint parts_at, const int K, const int M, const int N0,
                  const int N1, const int ROWS) {
    const size_t m = M, from = get_global_id(0) * ROWS, end = min(from + ROWS, (size_t)K);
    __global float *part = parts + parts_at + get_global_id(0) * (N0 + N1 + SUMS) * m;
    for (size_t k0 = from; k0 < end; k0 += CHUNK) {
        const size_t k1 = min(k0 + CHUNK, end);
        const int begins = k0 == from;
        for (size_t i = 0; i < m; i += MV * V) {
            PRODUCTS(X0, N0, 0)
#if COUNT == 2
            PRODUCTS(X1, N1, N0)
#endif
#if SUMS
            __global float *to = part + (N0 + N1) * m + i;
            __global const float *d = D + D_at + k0 * m + i;
            START(0)
            for (size_t k = k0; k < k1; ++k, d += m) { EACH_COL(MV, ADD_D, 0) }
            EACH_COL(MV, STORE_TO, 0)
#endif
        }
    }
}

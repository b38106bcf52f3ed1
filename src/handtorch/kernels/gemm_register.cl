// gemm_register: C = f(A B); an item keeps R rows x NV vectors of V columns of C in registers.
//   f(x) = x, then + bias[j] if BIAS, then max(x, 0) if ACT is 1, then x * (y[i][j] > 0) if MASK.
// With SGD the product is the gradient of the weight C, which is updated as by kernel sgd: the
//   gradient itself is never stored. lr f32 [1]; m f32 [M, N] in place, absent if not HAS_MOMENTUM.
// A f32 [M, K] (TA: [K, M]), B f32 [K, N] (PB: panels [ceil(N/W)][K][W] of pack_b), C f32 [M, N],
// bias f32 [N], y f32 [M, N], row-major; C may overlap no other operand.  W = NV V must be <= N.
// Edges: rows beyond M read row M-1 and are not stored; the last tile of columns is moved left until
// it ends at N, and stores only the columns that no other item owns.
// With SPLIT dimension 2 counts parts of K, SPLIT long but for the last, and C is [parts][M, N]: one
// product for each, without an epilogue. So a long K is walked in parts that stay in the cache.
// Local memory: none.  Work-group: WGX row tiles x WGY column tiles; 1 x 1 on a CPU.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define KU 2
#define TA 0
#define PB 0
#define BIAS 0
#define ACT 0
#define MASK 0
#define SGD 0
#define HAS_MOMENTUM 0
#define NESTEROV 0
#define SIGN 1.0f
#define DECAY 0.0f
#define MOMENTUM 0.0f
#define WGX 1
#define WGY 1
#define SPLIT 0
#endif
#define W (NV * V)
#define FLOATS VEC(float, V)
#if TA
#define A_ROW 1
#define A_STEP m
#else
#define A_ROW K
#define A_STEP 1
#endif
#if SPLIT
#define FROM (get_global_id(2) * SPLIT)
#define DEPTH min(SPLIT, K - (int)FROM)
#define PART (get_global_id(2) * m * n)
#else
#define FROM 0
#define DEPTH K
#define PART 0
#endif
#define ROW(r) \
    __global const float *a##r = A + A_at + FROM * A_STEP + min(i + r, m - 1) * A_ROW; EACH_COL(NV, ZERO, r)
#define ZERO(r, v) FLOATS c##r##_##v = 0.0f;
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b);
#define MULTIPLY(r) { const FLOATS x = a##r[at]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(x, w##v, c##r##_##v);
#define ONE_K { EACH_COL(NV, LOAD, 0) b += B_STEP; EACH_ROW(R, MULTIPLY) at += A_STEP; }
#if KU == 4
#define ALL_K ONE_K ONE_K ONE_K ONE_K
#elif KU == 2
#define ALL_K ONE_K ONE_K
#else
#define ALL_K ONE_K
#endif
#if BIAS
#define ADD_BIAS(v) s += LOAD_V(v, bias + bias_at + j);
#else
#define ADD_BIAS(v)
#endif
#if ACT
#define APPLY s = select(s, (FLOATS)0.0f, s < 0.0f);           // keeps NaN, as torch does
#else
#define APPLY
#endif
#if MASK
#define APPLY_MASK(v) s = select(s, (FLOATS)0.0f, LOAD_V(v, y + y_at + (i + r_) * n + j) <= 0.0f);
#else
#define APPLY_MASK(v)
#endif
#if HAS_MOMENTUM
#define MOVE(T, LD, ST) { \
        __global float *moment = m_ + m_at + (c - C - C_at); \
        const T moved = MOMENTUM * LD(0, moment) + d; \
        ST(moved, 0, moment); \
        d = NESTEROV ? d + MOMENTUM * moved : moved; }
#else
#define MOVE(T, LD, ST)
#endif
#if SGD
#define UPDATE(T, LD, ST, x) { \
        const T old = LD(0, c); \
        T d = SIGN * x + DECAY * old; \
        MOVE(T, LD, ST) \
        x = old - lr[lr_at] * d; }
#else
#define UPDATE(T, LD, ST, x)
#endif
#define STORE_ROW(r) if (i + r < m) { const size_t r_ = r; EACH_COL(NV, STORE, r) }
#define STORE(r, v) if (j + (v + 1) * V > own) { \
        __global float *c = C + C_at + PART + (i + r_) * n + j + v * V; \
        FLOATS s = c##r##_##v; \
        ADD_BIAS(v) APPLY APPLY_MASK(v) \
        if (j + v * V >= own) { UPDATE(FLOATS, LOAD_V, STORE_V, s) STORE_V(s, 0, c); } \
        else { \
            float lanes[V]; \
            STORE_V(s, 0, lanes); \
            c += own - j - v * V; \
            for (size_t l = own - j - v * V; l < V; ++l, ++c) { \
                float one = lanes[l]; \
                UPDATE(float, vload1, vstore1, one) \
                *c = one; \
            } \
        } }
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void gemm_register(__global const float *A, const uint A_at, __global const float *B, const uint B_at,
                   __global float *C, const uint C_at,
#if BIAS
                   __global const float *bias, const uint bias_at,
#endif
#if MASK
                   __global const float *y, const uint y_at,
#endif
#if SGD
                   __global const float *lr, const uint lr_at,
#endif
#if HAS_MOMENTUM
                   __global float *m_, const uint m_at,
#endif
                   const int M, const int N, const int K) {
    const size_t m = M, n = N, i = get_global_id(0) * R, own = get_global_id(1) * W;
    if (i >= m || own >= n) return;                 // the last groups may hang over the edge
    const size_t j = min(own, n - W);
    const int depth = DEPTH;
#if PB
    __global const float *b = B + B_at + own * K + FROM * W;
    const size_t B_STEP = W;
#else
    __global const float *b = B + B_at + FROM * n + j;
    const size_t B_STEP = n;
#endif
    EACH_ROW(R, ROW)
    size_t at = 0;
    int k = 0;
    for (; k + KU <= depth; k += KU) { ALL_K }
#if KU > 1
    for (; k < depth; ++k) { ONE_K }
#endif
    EACH_ROW(R, STORE_ROW)
}

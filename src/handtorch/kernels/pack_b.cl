// pack_b: B in panels of W columns, so that gemm_register (PB) reads one stream: P[p][k][w] = B[k][j+w]
// with j = min(p W, N - W): the last panel is moved left until it ends at N, as the tile that reads it.
// B f32 [K, N] (TB: [N, K]), P f32 [ceil(N/W)][K][W], row-major; P may not overlap B.  W must be <= N.
// TB with W and KB multiples of 16: tiles of 16 x 16 are turned in registers, so that every cache line
// is touched once; a rest of fewer than 16 rows goes to the item before.
// Local memory: none.  Work-group: 1 panel x WGY rows; an item does KB rows of a panel.
#ifndef W
#define W 8
#define V 4
#define KB 16
#define TB 0
#define WGY 1
#endif
#define PLACE(i) __global const float *p##i = from + min((j + w + i) * depth, safe);
#define LOAD(i) const float16 a##i = vload16(0, p##i + k);
#define NEXT(i) AHEAD(p##i + next);
#define PUT(r) vstore16(c##r, 0, to + (k + r) * W + w);
#define PUT_SOME(r) if (r < depth) PUT(r)
__kernel __attribute__((reqd_work_group_size(1, WGY, 1)))
void pack_b(__global const float *B, const uint B_at, __global float *P, const uint P_at,
            const int N, const int K) {
    const size_t n = N, depth = K, p = get_global_id(0), k0 = get_global_id(1) * KB;
    if (k0 >= depth) return;                        // the last groups may hang over the edge
    const size_t j = min(p * W, n - W);
    __global const float *from = B + B_at;
    __global float *to = P + P_at + p * depth * W;
#if TB && W % 16 == 0 && KB % 16 == 0
    if (k0 > 0 && k0 + 16 > depth) return;
    // Of 16 rows or more the last tile is moved left until it ends with them. Fewer are loaded with
    // what follows them, or, where nothing does, one by one in the end.
    const size_t last = depth < 16 ? 0 : depth - 16, safe = n * depth - 16;
    const size_t end = k0 + KB + 16 > depth ? depth : k0 + KB;
    for (size_t w = 0; w < W; w += 16) {
        EACH_ROW(16, PLACE)
        for (size_t s = k0; s < end; s += 16) {
            const size_t k = min(s, last), next = depth < 16 ? 128 * depth : min(k + 32, last);
            EACH_ROW(16, LOAD)
            EACH_ROW(16, NEXT)
            TURN16(a, c)
            if (depth < 16) {
                EACH_ROW(16, PUT_SOME)
            } else {
                EACH_ROW(16, PUT)
            }
        }
    }
    for (size_t w = W; w > 0 && (j + w - 1) * depth + last > safe; --w)
        for (size_t k = k0; k < end; ++k) to[k * W + w - 1] = from[(j + w - 1) * depth + k];
#else
    for (size_t k = k0; k < min(k0 + KB, depth); ++k) {
#if TB
        for (size_t w = 0; w < W; ++w) to[k * W + w] = from[(j + w) * depth + k];
#else
#if W % 16 == 0
        for (size_t w = 0; w < W; w += 16) AHEAD(from + (k + 16) * n + j + w);
#endif
        for (size_t w = 0; w < W; w += V) STORE_V(LOAD_V(0, from + k * n + j + w), 0, to + k * W + w);
#endif
    }
#endif
}

// nll_grad_rows: nll_grad where an item writes what lies together; operands as there
// Zeros first, then what differs: a number for each target among the item's classes. Where many targets
// lie side by side (INNER from LONG on), 16 of them at a time are compared with a class instead.
// Item = EACH of OUTER, PIECE of their classes (all of them if EACH is not 1). Aliasing: none.
// Local memory: none. WG: 1.
#ifndef WEIGHTED
#define WEIGHTED 0
#define ONE_EACH 0
#define MEAN 0
#endif
#define LONG 128
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void nll_grad_rows(__global const float *g, const uint g_at, __global const int *target,
                   const uint target_at,
#if WEIGHTED
                   __global const float *weight, const uint weight_at,
#endif
#if MEAN
                   __global const float *n, const uint n_at,
#endif
                   __global float *dx, const uint dx_at, const int OUTER, const int CLASSES,
                   const int INNER, const int IGNORE, const int EACH, const int PIECE) {
    const size_t inner = INNER, classes = CLASSES, each = EACH, piece = PIECE;
    const size_t m0 = get_global_id(0) * each, m1 = min(m0 + each, (size_t)OUTER);
    const size_t c0 = get_global_id(1) * piece, c1 = min(c0 + piece, classes);
#if MEAN
    const float count = n[n_at];
#else
    const float count = 1.0f;
#endif
    if (inner >= LONG) {
        for (size_t m = m0; m < m1; m++) {
            __global const int *ts = target + target_at + m * inner;
            __global const float *gs = g + g_at + m * inner * ONE_EACH;
            for (size_t c = c0; c < c1; c++) {
                __global float *q = dx + dx_at + (m * classes + c) * inner;
#if WEIGHTED
                const float share = weight[weight_at + c];
#else
                const float share = 1.0f;
#endif
                size_t s = 0;
                for (; s + 16 <= inner; s += 16) {
                    const int16 t = vload16(0, ts + s), there = t == (int)c;
                    const int16 bad = (t != IGNORE) & ((t < 0) | (t >= CLASSES));
#if ONE_EACH
                    const float16 found = -vload16(0, gs + s) * share / count;
#else
                    const float16 found = -gs[0] * share / count;
#endif
                    const int16 kept = as_int16(found) & there & (t != IGNORE);
                    vstore16(as_float16(kept | (bad & 0x7fc00000)), 0, q + s);
                }
                for (; s < inner; s++) {
                    const int t = ts[s];
                    const bool bad = t != IGNORE && (t < 0 || t >= CLASSES);
                    q[s] = bad ? NAN : t == (int)c && t != IGNORE
                        ? -gs[s * ONE_EACH] * share / count : 0.0f;
                }
            }
        }
        return;
    }
    __global float *p = dx + dx_at + (m0 * classes + c0) * inner;
    const size_t size = ((m1 - m0 - 1) * classes + c1 - c0) * inner;
    size_t i = 0;
    for (; i + 16 <= size; i += 16) vstore16((float16)(0.0f), 0, p + i);
    for (; i < size; i++) p[i] = 0.0f;
    for (size_t m = m0; m < m1; m++) {
        for (size_t s = 0; s < inner; s++) {
            const size_t row = m * inner + s;
            const int t = target[target_at + row];
            __global float *q = dx + dx_at + m * classes * inner + s;
            if (t == IGNORE) continue;
            if (t < 0 || t >= CLASSES) {
                for (size_t c = c0; c < c1; c++) q[c * inner] = NAN;
            } else if ((size_t)t >= c0 && (size_t)t < c1) {
                float found = -g[g_at + row * ONE_EACH];
#if WEIGHTED
                found *= weight[weight_at + t];
#endif
                q[t * inner] = found / count;
            }
        }
    }
}

// softmax_grad_axis: dx = y * (g - sum(g * y)) over the r axis; LOG=1: dx = g - exp(y) * sum(g)
// g, y, dx: f32 [OUTER][REDUCE][INNER]; y is the softmax, or its logarithm.  V divides INNER.
// FLAT: o and i share the first dimension, for short rows.
// Item = V columns, two sweeps. Aliasing: dx may be g or y. Local memory: none. WG: GROUP.
#ifndef LOG
#define LOG 0
#define V 4
#define FLAT 0
#define GROUP 16
#endif
#define TV VEC(float, V)
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void softmax_grad_axis(__global const float *g, const uint g_at, __global const float *y,
                       const uint y_at, __global float *dx, const uint dx_at,
                       const int OUTER, const int REDUCE, const int INNER) {
    const size_t inner = INNER, size = REDUCE;
#if FLAT
    const size_t across = inner / V, o = get_global_id(0) / across;
    const size_t i = get_global_id(0) % across * V;
    if (o >= (size_t)OUTER) return;              // the last group may hang over the edge
#else
    const size_t o = get_global_id(2), i = get_global_id(0) * V;
    if (i >= inner) return;
#endif
    const size_t at = o * size * inner + i;
    __global const float *pg = g + g_at + at, *py = y + y_at + at;
    __global float *q = dx + dx_at + at;
    TV sum = (TV)(0.0f);
#if LOG
    for (size_t r = 0; r < size; r++) sum += VLOAD(V)(0, pg + r * inner);
    for (size_t r = 0; r < size; r++)
        VSTORE(V)(VLOAD(V)(0, pg + r * inner) - exp(VLOAD(V)(0, py + r * inner)) * sum, 0,
                  q + r * inner);
#else
    for (size_t r = 0; r < size; r++)
        sum += VLOAD(V)(0, pg + r * inner) * VLOAD(V)(0, py + r * inner);
    for (size_t r = 0; r < size; r++)
        VSTORE(V)(VLOAD(V)(0, py + r * inner) * (VLOAD(V)(0, pg + r * inner) - sum), 0,
                  q + r * inner);
#endif
}

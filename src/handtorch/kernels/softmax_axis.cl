// softmax_axis: y = softmax of x over the r axis; LOG=1: its logarithm    x, y: f32 [OUTER][REDUCE][INNER]
// V divides INNER.  FLAT: o and i share the first dimension, for short rows.
// Item = V columns, three sweeps. Aliasing: y may be x. Local memory: none. WG: GROUP.
#ifndef LOG
#define LOG 0
#define V 4
#define FLAT 0
#define GROUP 16
#endif
#define TV VEC(float, V)
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void softmax_axis(__global const float *x, const uint x_at, __global float *y, const uint y_at,
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
    __global const float *p = x + x_at + o * size * inner + i;
    __global float *q = y + y_at + o * size * inner + i;
    TV top = (TV)(-INFINITY), sum = (TV)(0.0f);
    for (size_t r = 0; r < size; r++) top = fmax(top, VLOAD(V)(0, p + r * inner));
    for (size_t r = 0; r < size; r++) sum += exp(VLOAD(V)(0, p + r * inner) - top);
#if LOG
    const TV shift = log(sum);
    for (size_t r = 0; r < size; r++)
        VSTORE(V)(VLOAD(V)(0, p + r * inner) - top - shift, 0, q + r * inner);
#else
    const TV scale = 1.0f / sum;
    for (size_t r = 0; r < size; r++)
        VSTORE(V)(exp(VLOAD(V)(0, p + r * inner) - top) * scale, 0, q + r * inner);
#endif
}

// reduce_axis: y[o][k][i] = SCALE * fold of f(x[o][r][i]) over the k-th piece of the r axis
// x: [OUTER][REDUCE][INNER], y: [OUTER][pieces][INNER].  FOLD: 0 sum, 1 product, 2 largest, 3 smallest
// (NaN wins, as in PyTorch).  OF: f is 0 x, 1 |x|, 2 x*x.  KIND: 0 float, 1 int, 2 uchar; SCALE is for
// floats only.  V divides INNER.  FLAT: o and i share the first dimension, for short rows.
// Item = V columns of one piece, added up every 32 rows so that long sums stay accurate.
// Aliasing: none. Local memory: none. WG: GROUP.
#ifndef FOLD
#define FOLD 0
#define OF 0
#define KIND 0
#define V 4
#define FLAT 0
#define GROUP 16
#endif
#if KIND == 0
#define T float
#elif KIND == 1
#define T int
#else
#define T uchar
#endif
#if FOLD == 0
#define START 0
#define JOIN(a, b) ((a) + (b))
#elif FOLD == 1
#define START 1
#define JOIN(a, b) ((a) * (b))
#elif KIND != 0
#define START (FOLD == 2 ? (KIND == 1 ? INT_MIN : 0) : (KIND == 1 ? INT_MAX : 255))
#if FOLD == 2
#define JOIN(a, b) max(a, b)
#else
#define JOIN(a, b) min(a, b)
#endif
#elif FOLD == 2
#define START (-INFINITY)
#define JOIN(a, b) select(b, a, ((a) > (b)) | isnan(a))
#else
#define START INFINITY
#define JOIN(a, b) select(b, a, ((a) < (b)) | isnan(a))
#endif
#if OF == 0
#define F(v) (v)
#elif OF == 1
#define F(v) fabs(v)
#else
#define F(v) ((v) * (v))
#endif
#if V == 1
#define TV T
#else
#define TV VEC(T, V)
#endif
#define BLOCK 32
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void reduce_axis(__global const T *x, const uint x_at, __global T *y, const uint y_at,
                 const int OUTER, const int REDUCE, const int INNER, const int PIECE,
                 const float SCALE) {
    const size_t inner = INNER, size = REDUCE, piece = PIECE, k = get_global_id(1);
#if FLAT
    const size_t across = inner / V, o = get_global_id(0) / across;
    const size_t i = get_global_id(0) % across * V;
    if (o >= (size_t)OUTER) return;              // the last group may hang over the edge
#else
    const size_t o = get_global_id(2), i = get_global_id(0) * V;
    if (i >= inner) return;
#endif
    const size_t last = min(k * piece + piece, size);
    __global const T *p = x + x_at + o * size * inner + i;
    TV total = (TV)((T)START);
    for (size_t r = k * piece; r < last;) {
        const size_t stop = min(r + BLOCK, last);
        TV run = (TV)((T)START);
        for (; r < stop; r++) {
            const TV v = VLOAD(V)(0, p + r * inner), f = F(v);
            run = JOIN(run, f);
        }
        total = JOIN(total, run);
    }
#if KIND == 0
    total *= SCALE;
#endif
    VSTORE(V)(total, 0, y + y_at + (o * get_global_size(1) + k) * inner + i);
}

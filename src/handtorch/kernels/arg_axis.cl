// arg_axis: the largest (LARGEST=0: smallest) of x[o][r][i] over the k-th piece of the r axis, and where
// x, best: f32 or i32 (KIND 1) [OUTER][REDUCE][INNER] and [OUTER][pieces][INNER]; where: i32 like best.
// The first of equals wins; NaN wins over all, as in PyTorch.  AGAIN: x holds the bests of pieces and
// `from` where each was found.  FLAT: o and i share the first dimension.
// Item = one (o, i) of one piece. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef LARGEST
#define LARGEST 1
#define KIND 0
#define AGAIN 0
#define FLAT 0
#define GROUP 16
#endif
#if KIND == 0
#define T float
#define NAN_FIRST(v, b) (isnan(v) && !isnan(b))
#else
#define T int
#define NAN_FIRST(v, b) false
#endif
#if LARGEST
#define BEFORE(a, b) ((a) > (b))
#else
#define BEFORE(a, b) ((a) < (b))
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void arg_axis(__global const T *x, const uint x_at,
#if AGAIN
              __global const int *from, const uint from_at,
#endif
              __global T *best, const uint best_at, __global int *where, const uint where_at,
              const int OUTER, const int REDUCE, const int INNER, const int PIECE) {
    const size_t inner = INNER, size = REDUCE, piece = PIECE, k = get_global_id(1);
#if FLAT
    const size_t o = get_global_id(0) / inner, i = get_global_id(0) % inner;
    if (o >= (size_t)OUTER) return;              // the last group may hang over the edge
#else
    const size_t o = get_global_id(2), i = get_global_id(0);
    if (i >= inner) return;
#endif
    const size_t at = o * size * inner + i, first = k * piece, last = min(first + piece, size);
    T top = x[x_at + at + first * inner];
    size_t found = first;
    for (size_t r = first + 1; r < last; r++) {
        const T v = x[x_at + at + r * inner];
        if (BEFORE(v, top) || NAN_FIRST(v, top)) {
            top = v;
            found = r;
        }
    }
    const size_t out = (o * get_global_size(1) + k) * inner + i;
    best[best_at + out] = top;
#if AGAIN
    where[where_at + out] = from[from_at + at + found * inner];
#else
    where[where_at + out] = (int)found;
#endif
}

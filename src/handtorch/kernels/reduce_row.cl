// reduce_row: y[o][k] = SCALE * fold of f(x[o][r]) over the k-th piece of row o
// x: [OUTER][REDUCE], y: [OUTER][pieces].  FOLD: 0 sum, 1 product, 2 largest, 3 smallest (NaN wins, as
// in PyTorch).  OF: f is 0 x, 1 |x|, 2 x*x.  KIND: 0 float, 1 int, 2 uchar; SCALE is for floats only.
// Item = one piece, 64 sums side by side, added up every 1024 elements so that long sums stay
// accurate. Aliasing: none. Local memory: none. WG: 1.
#ifndef FOLD
#define FOLD 0
#define OF 0
#define KIND 0
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
#define T16 VEC(T, 16)
#define TAKE(into, from) do { const T16 v = vload16(0, from), f = F(v); into = JOIN(into, f); } while (0)
#define BLOCK 1024
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduce_row(__global const T *x, const uint x_at, __global T *y, const uint y_at,
                const int REDUCE, const int PIECE, const float SCALE) {
    const size_t k = get_global_id(0), o = get_global_id(1), size = REDUCE, piece = PIECE;
    const size_t last = min(k * piece + piece, size);
    __global const T *p = x + x_at + o * size;
    size_t r = k * piece;
    T16 total = (T16)((T)START);
    while (r + 16 <= last) {
        const size_t stop = min(r + BLOCK, last);
        T16 a = (T16)((T)START), b = a, c = a, d = a;
        for (; r + 64 <= stop; r += 64) {
            TAKE(a, p + r);
            TAKE(b, p + r + 16);
            TAKE(c, p + r + 32);
            TAKE(d, p + r + 48);
        }
        for (; r + 16 <= stop; r += 16) TAKE(a, p + r);
        a = JOIN(a, b);
        c = JOIN(c, d);
        a = JOIN(a, c);
        total = JOIN(total, a);
    }
    T one = (T)START;
    for (; r < last; r++) {
        const T f = F(p[r]);
        one = JOIN(one, f);
    }
    T lanes[16];
    vstore16(total, 0, lanes);
    for (int l = 0; l < 16; l++) one = JOIN(one, lanes[l]);
#if KIND == 0
    one *= SCALE;
#endif
    y[y_at + o * get_global_size(0) + k] = one;
}

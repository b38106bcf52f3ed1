// move: y[TO + i0 Y0 + ... + i5 Y5] = x[FROM + i0 X0 + ... + i5 X5]   for all i0 < D0, i1 < D1, ...
// x, y: TYPE, any strides, also negative ones of x; no element of y is named twice.
// TYPE is an integer of BYTES: bits are moved, not numbers. Aliasing: none.
// AXES: those beyond have one element. Item = V elements along axis 0, T along axis 1.
// FORM 1: X0 = Y0 = 1, vectors; 2: X1 = Y0 = 1, tiles of 16 x 16 turned in private memory, so that
// every cache line is touched once; 0: anything, one by one.
// ITEMS = C0 C1 D2 D3 D4 D5, where C0 = ceil(D0 / V) and C1 = ceil(D1 / T).
// FORM 3: as 1, but item = all of axis 0, for the C1-th part of axis 1; C0 = 1. Its last vector is moved
// back until it ends where axis 0 does, and copies some elements again.
// Local memory: none. WG: GROUP.
#ifndef BYTES
#define BYTES 4
#define AXES 6
#define V 4
#define T 1
#define FORM 1
#define GROUP 16
#endif
#if BYTES == 1
#define TYPE uchar
#else
#define TYPE uint
#endif
#define AT(l) tile[16 * l + r]
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void move(__global const TYPE *x, const uint x_at, __global TYPE *y, const uint y_at,
          const uint FROM, const uint TO, const uint ITEMS, const uint C0, const uint C1,
          const uint D0, const uint D1, const uint D2, const uint D3, const uint D4,
          const int X0, const int X1, const int X2, const int X3, const int X4, const int X5,
          const int Y0, const int Y1, const int Y2, const int Y3, const int Y4, const int Y5) {
    const uint item = get_global_id(0);
    if (item >= ITEMS) return;                      // the last group may hang over the edge
#if FORM == 3
    const uint step = (D1 + C1 - 1) / C1;
#else
    const uint step = T;
#endif
    // 32 bits for the divisions, which are slow; size_t where it is added up: strides that are
    // negative wrap around as they should.
    size_t from = x_at + (size_t)FROM, to = y_at + (size_t)TO;
#if AXES == 1
    const uint i0 = item * V, i1 = 0;
#else
    const uint q0 = item / C0, i0 = (item - q0 * C0) * V;
#if AXES == 2
    const uint i1 = q0 * step;
#else
    const uint q1 = q0 / C1, i1 = (q0 - q1 * C1) * step;
#if AXES == 3
    from += q1 * (size_t)X2;
    to += q1 * (size_t)Y2;
#else
    const uint q2 = q1 / D2, q3 = q2 / D3, i5 = q3 / D4;
    const size_t i2 = q1 - q2 * D2, i3 = q2 - q3 * D3, i4 = q3 - i5 * D4;
    from += i2 * X2 + i3 * X3 + i4 * X4 + i5 * (size_t)X5;
    to += i2 * Y2 + i3 * Y3 + i4 * Y4 + i5 * (size_t)Y5;
#endif
#endif
    from += i1 * (size_t)X1;
    to += i1 * (size_t)Y1;
#endif
    from += i0 * (size_t)X0;
    to += i0 * (size_t)Y0;
#if FORM == 3
    const uint last = min(i1 + step, D1);
    for (uint r = i1; r < last; ++r) {
        uint l = 0;
        for (; l + V <= D0; l += V) STORE_V(LOAD_V(0, x + from + l), 0, y + to + l);
        if (l < D0 && D0 >= V) {
            l = D0 - V;
            STORE_V(LOAD_V(0, x + from + l), 0, y + to + l);
        } else {
            for (; l < D0; ++l) y[to + l] = x[from + l];
        }
        from += X1;
        to += Y1;
    }
#else
    const uint count = min(D0 - i0, (uint)V), rows = min(D1 - i1, step);
#if FORM == 1
    for (uint r = 0; r < rows; ++r) {
        if (count == V) {
            STORE_V(LOAD_V(0, x + from), 0, y + to);
        } else {
            for (uint l = 0; l < count; ++l) y[to + l] = x[from + l];
        }
        from += X1;
        to += Y1;
    }
#else
#if FORM == 2
    if (count == 16 && rows == 16) {
        TYPE tile[256];
        for (uint l = 0; l < 16; ++l) vstore16(vload16(0, x + from + l * (size_t)X0), l, tile);
        for (uint r = 0; r < 16; ++r)
            vstore16((VEC(TYPE, 16))(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8),
                                     AT(9), AT(10), AT(11), AT(12), AT(13), AT(14), AT(15)),
                     0, y + to + r * (size_t)Y1);
        return;
    }
#endif
    for (uint r = 0; r < rows; ++r)
        for (uint l = 0; l < count; ++l)
            y[to + r * (size_t)Y1 + l * (size_t)Y0] = x[from + r * (size_t)X1 + l * (size_t)X0];
#endif
#endif
}

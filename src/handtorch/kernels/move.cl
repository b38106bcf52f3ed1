// move: y[TO + i0 Y0 + ... + i5 Y5] = x[FROM + i0 X0 + ... + i5 X5]   for all i0 < D0, i1 < D1, ...
// x, y: TYPE, any strides, also negative ones of x; no element of y is named twice.
// TYPE is an integer of the element's size: bits are moved, not numbers. Aliasing: none.
// Item = V elements along axis 0, T along axis 1. UNIT: X0 = Y0 = 1, moved as vectors.
// ITEMS = C0 C1 D2 D3 D4 D5, where C0 = ceil(D0 / V) and C1 = ceil(D1 / T).
// Local memory: none. WG: GROUP.
#ifndef TYPE
#define TYPE uint
#define V 4
#define T 1
#define UNIT 1
#define GROUP 16
#endif
// Not VLOAD and VSTORE: PoCL renames the word `vload`, and pasting a 1 to its new name misses vload1.
#define LOAD_V HT_CAT(vl, HT_CAT(oad, V))
#define STORE_V HT_CAT(vs, HT_CAT(tore, V))
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void move(__global const TYPE *x, const uint x_at, __global TYPE *y, const uint y_at,
          const uint FROM, const uint TO, const uint ITEMS, const uint C0, const uint C1,
          const uint D0, const uint D1, const uint D2, const uint D3, const uint D4,
          const int X0, const int X1, const int X2, const int X3, const int X4, const int X5,
          const int Y0, const int Y1, const int Y2, const int Y3, const int Y4, const int Y5) {
    const uint item = get_global_id(0);
    if (item >= ITEMS) return;                      // the last group may hang over the edge
    // 32 bits for the divisions, which are slow; size_t where it is added up: strides that are
    // negative wrap around as they should.
    uint q = item / C0;
    const uint i0 = (item - q * C0) * V;
    const uint q1 = q / C1, i1 = (q - q1 * C1) * T;
    const uint q2 = q1 / D2, q3 = q2 / D3, i5 = q3 / D4;
    const size_t i2 = q1 - q2 * D2, i3 = q2 - q3 * D3, i4 = q3 - i5 * D4;
    size_t from = x_at + (size_t)FROM + i0 * (size_t)X0 + i1 * (size_t)X1 + i2 * (size_t)X2 + i3 * (size_t)X3
                  + i4 * (size_t)X4 + i5 * (size_t)X5;
    size_t to = y_at + (size_t)TO + i0 * (size_t)Y0 + i1 * (size_t)Y1 + i2 * (size_t)Y2 + i3 * (size_t)Y3
                + i4 * (size_t)Y4 + i5 * (size_t)Y5;
    const uint count = min(D0 - i0, (uint)V), rows = min(D1 - i1, (uint)T);
    for (uint r = 0; r < rows; ++r) {
#if UNIT
        if (count == V) {
            STORE_V(LOAD_V(0, x + from), 0, y + to);
        } else {
            for (uint l = 0; l < count; ++l) y[to + l] = x[from + l];
        }
#else
        for (uint l = 0; l < count; ++l) y[to + l * (size_t)Y0] = x[from + l * (size_t)X0];
#endif
        from += X1;
        to += Y1;
    }
}

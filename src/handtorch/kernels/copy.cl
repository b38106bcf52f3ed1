// copy: y = x, V floats an item: the rate at which a kernel can read and write memory.
// x, y f32 [COUNT]; y may not overlap x.  The last item copies what is left one by one.
// Local memory: none.  Work-group: WG.  V: 2, 4, 8 or 16.
#ifndef V
#define V 4
#define WG 64
#endif
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void copy(__global const float *x, const uint x_at, __global float *y, const uint y_at,
          const int COUNT) {
    const size_t i = get_global_id(0) * V, count = COUNT;
    if (i + V <= count) {
        VSTORE(V)(VLOAD(V)(0, x + x_at + i), 0, y + y_at + i);
    } else {
        for (size_t l = i; l < count; ++l) y[y_at + l] = x[x_at + l];
    }
}

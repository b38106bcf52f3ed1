// scan_axis: y[o][r][i] = x[o][0][i] + ... + x[o][r][i]; PRODUCT: times instead of plus
// x, y: f32 or i32 (KIND 1) [OUTER][REDUCE][INNER].  Float sums carry what rounding lost along, since
// PyTorch sums in double here.  FLAT: o and i share the first dimension.
// Item = one (o, i). Aliasing: y may be x. Local memory: none. WG: GROUP.
#ifndef PRODUCT
#define PRODUCT 0
#define KIND 0
#define FLAT 0
#define GROUP 16
#endif
#if KIND == 0
#define T float
#else
#define T int
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scan_axis(__global const T *x, const uint x_at, __global T *y, const uint y_at,
               const int OUTER, const int REDUCE, const int INNER) {
    const size_t inner = INNER, size = REDUCE;
#if FLAT
    const size_t o = get_global_id(0) / inner, i = get_global_id(0) % inner;
    if (o >= (size_t)OUTER) return;              // the last group may hang over the edge
#else
    const size_t o = get_global_id(2), i = get_global_id(0);
    if (i >= inner) return;
#endif
    __global const T *p = x + x_at + o * size * inner + i;
    __global T *q = y + y_at + o * size * inner + i;
    T total = PRODUCT;
#if KIND == 0 && !PRODUCT
    float lost = 0.0f;
    for (size_t r = 0; r < size; r++) {
        const float v = p[r * inner], next = total + v, back = next - total;
        lost += (total - (next - back)) + (v - back);
        total = next;
        // An infinite sum makes `lost` NaN; PyTorch gives the infinity.
        q[r * inner] = isfinite(next) ? next + lost : next;
    }
#else
    for (size_t r = 0; r < size; r++) {
#if PRODUCT
        total *= p[r * inner];
#else
        total += p[r * inner];
#endif
        q[r * inner] = total;
    }
#endif
}

// transpose: y[c][r] = x[r][c]     x: f32 [ROWS][COLUMNS], y: f32 [COLUMNS][ROWS]
// Item = one element of y; neighbours write neighbours. Aliasing: none. WG: GROUP x 1.
#ifndef GROUP
#define GROUP 16
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void transpose(__global const float *x, const uint x_at, __global float *y, const uint y_at,
               const int ROWS, const int COLUMNS) {
    const size_t r = get_global_id(0), c = get_global_id(1);
    if (r >= (size_t)ROWS) return;               // the last group may hang over the edge
    y[y_at + c * ROWS + r] = x[x_at + r * COLUMNS + c];
}

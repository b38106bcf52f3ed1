// sum_row: y[o] = SCALE * sum over r of x[o][r]     x: f32 [OUTER][REDUCE], y: f32 [OUTER]
// Item = one row, 16 sums side by side. Aliasing: none. Local memory: none. WG: 1.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void sum_row(__global const float *x, const uint x_at, __global float *y, const uint y_at,
             const int REDUCE, const float SCALE) {
    const size_t o = get_global_id(0);
    __global const float *p = x + x_at + o * REDUCE;
    float16 sums = 0.0f;
    int r = 0;
    for (; r + 16 <= REDUCE; r += 16) sums += vload16(0, p + r);
    float sum = 0.0f;
    for (; r < REDUCE; r++) sum += p[r];
    y[y_at + o] = (sum + LANE_SUM16(sums)) * SCALE;
}

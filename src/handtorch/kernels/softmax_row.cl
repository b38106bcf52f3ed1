// softmax_row: y = softmax(x) over each row; LOG=1: its logarithm     x, y: f32 [ROWS][COLUMNS]
// Item = one row, three sweeps. Aliasing: y may be x. Local memory: none. WG: 1.
#ifndef LOG
#define LOG 0
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_row(__global const float *x, const uint x_at, __global float *y, const uint y_at,
                 const int COLUMNS) {
    const size_t columns = COLUMNS, at = get_global_id(0) * columns;
    __global const float *p = x + x_at + at;
    __global float *q = y + y_at + at;
    float16 tops = -INFINITY;
    size_t c = 0;
    for (; c + 16 <= columns; c += 16) tops = fmax(tops, vload16(0, p + c));
    float top = LANE_MAX16(tops);
    for (; c < columns; c++) top = fmax(top, p[c]);
    float16 sums = 0.0f;
    for (c = 0; c + 16 <= columns; c += 16) sums += exp(vload16(0, p + c) - top);
    float sum = LANE_SUM16(sums);
    for (; c < columns; c++) sum += exp(p[c] - top);
#if LOG
    const float shift = log(sum);                // two steps: top may be large
    for (c = 0; c + 16 <= columns; c += 16) vstore16(vload16(0, p + c) - top - shift, 0, q + c);
    for (; c < columns; c++) q[c] = p[c] - top - shift;
#else
    const float scale = 1.0f / sum;
    for (c = 0; c + 16 <= columns; c += 16) vstore16(exp(vload16(0, p + c) - top) * scale, 0, q + c);
    for (; c < columns; c++) q[c] = exp(p[c] - top) * scale;
#endif
}

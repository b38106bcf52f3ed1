// softmax_grad_row: dx = y * (g - sum(g * y)) over each row; LOG=1: dx = g - exp(y) * sum(g)
// g, y, dx: f32 [ROWS][COLUMNS]; y is the softmax, or its logarithm.
// Item = one row, two sweeps. Aliasing: dx may be g or y. Local memory: none. WG: 1.
#ifndef LOG
#define LOG 0
#endif
#if LOG
#define TERM(gv, yv) (gv)
#define RESULT(gv, yv) ((gv) - exp(yv) * sum)
#else
#define TERM(gv, yv) ((gv) * (yv))
#define RESULT(gv, yv) ((yv) * ((gv) - sum))
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_grad_row(__global const float *g, const uint g_at, __global const float *y,
                      const uint y_at, __global float *dx, const uint dx_at, const int COLUMNS) {
    const size_t columns = COLUMNS, at = get_global_id(0) * columns;
    __global const float *pg = g + g_at + at, *py = y + y_at + at;
    __global float *q = dx + dx_at + at;
    float16 sums = 0.0f;
    size_t c = 0;
    for (; c + 16 <= columns; c += 16) sums += TERM(vload16(0, pg + c), vload16(0, py + c));
    float sum = LANE_SUM16(sums);
    for (; c < columns; c++) sum += TERM(pg[c], py[c]);
    for (c = 0; c + 16 <= columns; c += 16)
        vstore16(RESULT(vload16(0, pg + c), vload16(0, py + c)), 0, q + c);
    for (; c < columns; c++) q[c] = RESULT(pg[c], py[c]);
}

// log_softmax_grad: dx = g - exp(y) * sum(g) over each row     g, y, dx: f32 [ROWS][COLUMNS]
// y is the log-softmax. Item = one row. Aliasing: dx may be g. Local memory: none. WG: 1.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void log_softmax_grad(__global const float *g, const uint g_at, __global const float *y,
                      const uint y_at, __global float *dx, const uint dx_at, const int COLUMNS) {
    const size_t at = get_global_id(0) * COLUMNS;
    __global const float *pg = g + g_at + at, *py = y + y_at + at;
    __global float *q = dx + dx_at + at;
    float sum = 0.0f;
    for (int c = 0; c < COLUMNS; c++) sum += pg[c];
    int c = 0;
    for (; c + 16 <= COLUMNS; c += 16)
        vstore16(vload16(0, pg + c) - exp(vload16(0, py + c)) * sum, 0, q + c);
    for (; c < COLUMNS; c++) q[c] = pg[c] - exp(py[c]) * sum;
}

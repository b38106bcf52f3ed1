// cross_entropy: loss[r] = log(sum(exp(x[r]))) - x[r][target[r]]
//                dx[r]   = (softmax(x[r]) - onehot(target[r])) / n[0] (MEAN), or undivided
// x, dx: f32 [ROWS][COLUMNS]; target: i32 [ROWS]; n: f32 [1] (MEAN only); loss: f32 [ROWS].
// A row whose target is IGNORE counts as zero; a target outside the classes gives NaN, so that
// it cannot pass unnoticed. Item = one row. Aliasing: dx may be x. Local memory: none. WG: 1.
#ifndef MEAN
#define MEAN 0
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void cross_entropy(__global const float *x, const uint x_at, __global const int *target,
                   const uint target_at,
#if MEAN
                   __global const float *n, const uint n_at,
#endif
                   __global float *loss, const uint loss_at, __global float *dx, const uint dx_at,
                   const int COLUMNS, const int IGNORE) {
    const size_t row = get_global_id(0);
    __global const float *p = x + x_at + row * COLUMNS;
    __global float *q = dx + dx_at + row * COLUMNS;
    const int t = target[target_at + row];
    if (t == IGNORE) {
        loss[loss_at + row] = 0.0f;
        for (int c = 0; c < COLUMNS; c++) q[c] = 0.0f;
        return;
    }
    float16 tops = -INFINITY;
    int c = 0;
    for (; c + 16 <= COLUMNS; c += 16) tops = fmax(tops, vload16(0, p + c));
    float top = LANE_MAX16(tops);
    for (; c < COLUMNS; c++) top = fmax(top, p[c]);
    const bool known = t >= 0 && t < COLUMNS;
    const float picked = known ? p[t] : NAN;     // read before dx may overwrite it
    float16 sums = 0.0f;
    for (c = 0; c + 16 <= COLUMNS; c += 16) sums += exp(vload16(0, p + c) - top);
    float sum = LANE_SUM16(sums);
    for (; c < COLUMNS; c++) sum += exp(p[c] - top);
    loss[loss_at + row] = log(sum) - (picked - top);      // top may be large
#if MEAN
    const float part = 1.0f / n[n_at];
#else
    const float part = 1.0f;
#endif
    const float share = (known ? part : NAN) / sum;
    for (c = 0; c + 16 <= COLUMNS; c += 16) vstore16(exp(vload16(0, p + c) - top) * share, 0, q + c);
    for (; c < COLUMNS; c++) q[c] = exp(p[c] - top) * share;
    if (known) q[t] -= part;
}

// nll_grad: dx[r][c] = -g[0] * n[0] where c is target[r], else 0; a row of IGNORE is all 0,
// a row whose target is no class is NaN.
// target: i32 [ROWS], g, n: f32 [1], dx: f32 [ROWS][COLUMNS]. Item = one row. WG: 1.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void nll_grad(__global const float *g, const uint g_at, __global const int *target,
              const uint target_at, __global const float *n, const uint n_at,
              __global float *dx, const uint dx_at, const int COLUMNS, const int IGNORE) {
    const size_t row = get_global_id(0);
    __global float *q = dx + dx_at + row * COLUMNS;
    const int t = target[target_at + row];
    const bool known = t >= 0 && t < COLUMNS;
    const float rest = t == IGNORE || known ? 0.0f : NAN;
    for (int c = 0; c < COLUMNS; c++) q[c] = rest;
    if (t != IGNORE && known) q[t] = -g[g_at] * n[n_at];
}

// nll_rows: loss[r] = -x[r][target[r]]; 0 where the target is IGNORE, NaN where it is no class
// x: f32 [ROWS][COLUMNS] (log-probabilities), target: i32 [ROWS], loss: f32 [ROWS].  WG: 1.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void nll_rows(__global const float *x, const uint x_at, __global const int *target,
              const uint target_at, __global float *loss, const uint loss_at,
              const int COLUMNS, const int IGNORE) {
    const size_t row = get_global_id(0);
    const int t = target[target_at + row];
    const bool known = t >= 0 && t < COLUMNS;
    loss[loss_at + row] = t == IGNORE ? 0.0f : known ? -x[x_at + row * COLUMNS + t] : NAN;
}

// cross_entropy: loss[r] = log(sum(exp(x[r]))) - x[r][target[r]]
//                dx[r]   = (softmax(x[r]) - onehot(target[r])) / n[0] (MEAN), or undivided
// x, dx: f32 [ROWS][COLUMNS]; target: i32 [ROWS]; n: f32 [1] (MEAN only); loss: f32 [items], the sum of
// the losses of an item's EACH rows.
// A row whose target is IGNORE counts as zero; a target outside the classes gives NaN, so that
// it cannot pass unnoticed. The exponentials are computed once and wait in dx for their sum.
// What is taken off a row first cancels out. Its largest number is safe, but finding it is a pass of its
// own; so the one of an earlier row is tried first, and the sum tells whether that was near enough.
// A row goes in vectors from the first multiple of 16 on, counted from the start of x: there no load or
// store lies across two cache lines. Its first and last 16 numbers are a vector each, of which the sum
// takes what the others leave. Rows of fewer than 16 go one by one.
// Item = EACH rows. Aliasing: none. Local memory: none. WG: 1.
#ifndef MEAN
#define MEAN 0
#endif
#define MOST 80.0f
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define ONLY(condition, v) as_float16(as_int16(v) & (condition))
// As EXP16, but e to MOST for anything above it, and for NaN.
#define EXPONENTIAL(y, from) v = vload16(0, from) - top; EXP16(y, v < MOST ? v : MOST)
#define ALL_EXPONENTIALS \
    EXPONENTIAL(begin, p); \
    EXPONENTIAL(end, p + COLUMNS - 16); \
    sums = ONLY(LANES < head, begin) + ONLY(LANES >= 16 - rest, end); \
    for (int c = head; c < whole; c += 16) { \
        EXPONENTIAL(y, p + c); \
        vstore16(y, 0, q + c); \
        sums += y; \
    } \
    sum = LANE_SUM16(sums)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void cross_entropy(__global const float *x, const uint x_at, __global const int *target,
                   const uint target_at,
#if MEAN
                   __global const float *n, const uint n_at,
#endif
                   __global float *loss, const uint loss_at, __global float *dx, const uint dx_at,
                   const int ROWS, const int COLUMNS, const int IGNORE, const int EACH) {
    const size_t k = get_global_id(0), rows = ROWS, columns = COLUMNS, each = EACH;
    const size_t last = min(k * each + each, rows);
    float total = 0.0f, top = 0.0f;
#if MEAN
    const float part = 1.0f / n[n_at];
#else
    const float part = 1.0f;
#endif
    for (size_t row = k * each; row < last; row++) {
        __global const float *p = x + x_at + row * columns;
        __global float *q = dx + dx_at + row * columns;
        const int t = target[target_at + row];
        if (t == IGNORE) {
            for (int c = 0; c < COLUMNS; c++) q[c] = 0.0f;
            continue;
        }
        const bool known = t >= 0 && t < COLUMNS;
        const int head = COLUMNS < 16 ? COLUMNS : (int)(-(row * columns) & 15);
        const int whole = head + (COLUMNS - head) / 16 * 16, rest = COLUMNS - whole;
        float16 begin, end, sums, v, y;
        float sum = 0.0f;
        if (COLUMNS >= 16) {
            ALL_EXPONENTIALS;
        }
        if (!(sum > 1e-18f && sum < 1e18f)) {
            top = -INFINITY;
            for (int c = 0; c < COLUMNS; c++) top = fmax(top, p[c]);
            sum = 0.0f;
            for (int c = 0; c < COLUMNS; c++) sum += q[c] = exp(p[c] - top);
            const float share = (known ? part : NAN) / sum;
            for (int c = 0; c < COLUMNS; c++) q[c] *= share;
        } else {
            const float share = (known ? part : NAN) / sum;
            for (int c = whole - 16; c >= head; c -= 16)     // the last written first: it is nearest
                vstore16(vload16(0, q + c) * share, 0, q + c);
            vstore16(begin * share, 0, q);
            vstore16(end * share, 0, q + COLUMNS - 16);
        }
        const float away = top - (known ? p[t] : NAN);
        total += fabs(away) < 40.0f ? log(sum * exp(away)) : log(sum) + away;    // 1 + little keeps it
        if (known) q[t] -= part;
        if (!(fabs(top) < INFINITY)) top = 0.0f;
    }
    loss[loss_at + k] = total;
}

// cross_entropy: loss[r] = (log(sum(exp(x[r]))) - x[r][target[r]]) / n
//                dx[r]   = (softmax(x[r]) - onehot(target[r])) / n
// x, dx: f32 [ROWS][COLUMNS]; target: i32 [ROWS]; loss: f32 [items], the sum of the losses of an item's
// EACH rows. MEAN=0: n is 1; MEAN=1: the sum of n, f32 [COUNTED]; MEAN=2: how many targets are not IGNORE,
// which each item counts for itself.
// A row whose target is IGNORE counts as zero; a target outside the classes gives NaN, so that
// it cannot pass unnoticed. The exponentials are computed once and wait in dx for their sum.
// What is taken off a row first cancels out. Its largest number is safe, but finding it is a pass of its
// own; so a power of two near that of an earlier row is tried first, and `stray` tells whether all
// numbers are near enough to it. A row with one that is not is made anew, in three passes.
// A row goes in vectors from the first multiple of 16 on, counted from the start of x: there no load or
// store lies across two cache lines. Its first and last 16 numbers are a vector each, of which the sum
// takes what the others leave. Rows of fewer than 16 go one by one.
// WAITING=1: a row is divided by its sum while the next one gets its exponentials, in one loop, so that
// neither sums nor memory stand still; for what lies in some cache.
// Item = EACH rows. Aliasing: none. Local memory: none. WG: 1.
#ifndef MEAN
#define MEAN 0
#endif
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define ONLY(condition, v) as_float16(as_int16(v) & (condition))
#define POWER(y, from) float16 y; EXP16_NEAR(y, vload16(0, from), zero, stray)
#define DIVIDE(at) vstore16(vload16(0, at) * share, 0, at)
#define DIVIDE_FOUR(at) do { \
    const float16 z0 = vload16(0, at) * share, z1 = vload16(0, (at) + 16) * share; \
    const float16 z2 = vload16(0, (at) + 32) * share, z3 = vload16(0, (at) + 48) * share; \
    vstore16(z0, 0, at); \
    vstore16(z1, 0, (at) + 16); \
    vstore16(z2, 0, (at) + 32); \
    vstore16(z3, 0, (at) + 48); \
} while (0)
// The row that waits, from its number `at` on (the last ones are the nearest), its ends and its target.
#define FINISH(at) do { \
    size_t d = waiting; \
    for (; d >= (at) + 64; d -= 64) DIVIDE_FOUR(middle + d - 64); \
    for (; d > (at); d -= 16) DIVIDE(middle + d - 16); \
    vstore16(begin * share, 0, before); \
    vstore16(end * share, 0, before + COLUMNS - 16); \
    if (hit >= 0) before[hit] -= part; \
    before = 0; \
    waiting = 0; \
} while (0)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void cross_entropy(__global const float *x, const uint x_at, __global const int *target,
                   const uint target_at,
#if MEAN == 1
                   __global const float *n, const uint n_at,
#endif
                   __global float *loss, const uint loss_at, __global float *dx, const uint dx_at,
                   const int ROWS, const int COLUMNS, const int IGNORE, const int EACH,
                   const int COUNTED, const int WAITING) {
    const size_t k = get_global_id(0), columns = COLUMNS, each = EACH;
    const size_t last = min(k * each + each, (size_t)ROWS);
    float total = 0.0f, zero = EXP16_ZERO, share = 0.0f, count = 1.0f;
#if MEAN == 1
    count = run_sum(n + n_at, COUNTED);
#elif MEAN == 2
    count = (float)count_others(target + target_at, ROWS, IGNORE);
#endif
    const float part = 1.0f / count;
    __global float *before = 0, *middle = dx;    // the row that waits, and its vectors
    size_t waiting = 0;                          // numbers in `middle`
    int hit = -1;
    float16 begin = 0.0f, end = 0.0f;
    for (size_t row = k * each; row < last; row++) {
        __global const float *p = x + x_at + row * columns;
        __global float *q = dx + dx_at + row * columns;
        const int t = target[target_at + row];
        if (t == IGNORE) {
            for (int c = 0; c < COLUMNS; c++) q[c] = 0.0f;
            continue;
        }
        const bool known = t >= 0 && t < COLUMNS;
        uint16 stray = 0;
        if (COLUMNS >= 16) {
            const size_t head = -(row * columns) & 15, whole = (columns - head) & ~(size_t)15;
            const int rest = (int)(columns - head - whole);
            POWER(first, p);
            POWER(final, p + COLUMNS - 16);
            float16 sums = ONLY(LANES < (int)head, first) + ONLY(LANES >= 16 - rest, final);
            const size_t both = min(whole, waiting);
            size_t c = 0;
            for (; c < both; c += 16) {
                POWER(y, p + head + c);
                vstore16(y, 0, q + head + c);
                sums += y;
                DIVIDE(middle + c);
            }
            for (; c < whole; c += 16) {
                POWER(y, p + head + c);
                vstore16(y, 0, q + head + c);
                sums += y;
            }
            if (before) FINISH(both);
            if (!any(stray > 127)) {
                const float sum = LANE_SUM16(sums);
                share = (known ? part : NAN) / sum;
                begin = first;
                end = final;
                before = q;
                middle = q + head;
                waiting = whole;
                hit = known ? t : -1;
                if (!WAITING) FINISH(0);
                // Its own exponential as the sum has it: what is wrong with it cancels, 1 + little keeps it.
                float16 own;
                EXP16_NEAR(own, (float16)(p[known ? t : 0]), zero, stray);
                const float odds = known ? sum / own.s0 : NAN;
                total += odds > 1e30f ? log(sum) - log(own.s0) : log(odds);
                continue;
            }
        }
        float top = -INFINITY, sum = 0.0f;
        if (COLUMNS >= 16) {                     // the last vector is moved back
            float16 tops = -INFINITY, sums = 0.0f;
            for (int c = 0; c < COLUMNS; c += 16) {
                const float16 v = vload16(0, p + min(c, COLUMNS - 16));
                tops = v > tops ? v : tops;
            }
            top = LANE_MAX16(tops);
            for (int c = 0; c < COLUMNS; c += 16) {
                const int at = min(c, COLUMNS - 16);
                float16 y;
                EXP16(y, vload16(0, p + at) - top);
                vstore16(y, 0, q + at);
                sums += ONLY(LANES >= c - at, y);
            }
            sum = LANE_SUM16(sums);
        } else {
            for (int c = 0; c < COLUMNS; c++) top = fmax(top, p[c]);
            for (int c = 0; c < COLUMNS; c++) sum += q[c] = exp(p[c] - top);
        }
        share = (known ? part : NAN) / sum;
        for (int c = 0; c < COLUMNS; c++) q[c] *= share;
        if (known) q[t] -= part;
        total += log(sum) - ((known ? p[t] : NAN) - top);
        zero = EXP16_ZERO - (fabs(top) < 1e5f ? rint(top * 1.44269504f) : 0.0f);
    }
    if (before) FINISH(0);
    loss[loss_at + k] = total / count;
}

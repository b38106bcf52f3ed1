// cross_entropy: loss[r] = (log(sum(exp(x[r]))) - x[r][target[r]]) / n
//                dx[r]   = (softmax(x[r]) - onehot(target[r])) / n
// x, dx: f32 [ROWS][COLUMNS]; target: i32 [ROWS]; loss: f32 [items], the sum of the losses of an item's
// EACH rows. MEAN=0: n is 1; MEAN=1: the sum of n, f32 [COUNTED]; MEAN=2: how many targets are not IGNORE,
// which each item counts for itself.
// A row whose target is IGNORE counts as zero; a target outside the classes gives NaN, so that
// it cannot pass unnoticed. The exponentials are computed once and wait in dx for their sum.
// What is taken off a row first cancels out. Its largest number is safe, but finding it is a pass of its
// own; so the one of an earlier row is tried first, and the sum tells whether that was near enough.
// A row goes in vectors from the first multiple of 16 on, counted from the start of x: there no load or
// store lies across two cache lines. Its first and last 16 numbers are a vector each, of which the sum
// takes what the others leave. Rows of fewer than 16 go one by one.
// WAITING=1: a row is divided by its sum while the next one gets its exponentials, in one loop, so that
// neither sums nor memory stand still; for rows that are still in the nearest cache then.
// Item = EACH rows. Aliasing: none. Local memory: none. WG: 1.
#ifndef MEAN
#define MEAN 0
#endif
#define MOST 80.0f
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define ONLY(condition, v) as_float16(as_int16(v) & (condition))
// As EXP16, but e to MOST for anything above it, and for NaN.
#define EXPONENTIAL(y, from) do { \
    const float16 above = vload16(0, from) - top; \
    EXP16(y, (above < MOST ? above : MOST)); \
} while (0)
#define FOUR_EXPONENTIALS(from, to) do { \
    float16 y0, y1, y2, y3; \
    EXPONENTIAL(y0, from); \
    EXPONENTIAL(y1, (from) + 16); \
    EXPONENTIAL(y2, (from) + 32); \
    EXPONENTIAL(y3, (from) + 48); \
    vstore16(y0, 0, to); \
    vstore16(y1, 0, (to) + 16); \
    vstore16(y2, 0, (to) + 32); \
    vstore16(y3, 0, (to) + 48); \
    s0 += y0; \
    s1 += y1; \
    s2 += y2; \
    s3 += y3; \
} while (0)
#define DIVIDE(at) vstore16(vload16(0, at) * share, 0, at)
#define DIVIDE_FOUR(at) do { \
    const float16 z0 = vload16(0, at) * share, z1 = vload16(0, (at) + 16) * share; \
    const float16 z2 = vload16(0, (at) + 32) * share, z3 = vload16(0, (at) + 48) * share; \
    vstore16(z0, 0, at); \
    vstore16(z1, 0, (at) + 16); \
    vstore16(z2, 0, (at) + 32); \
    vstore16(z3, 0, (at) + 48); \
} while (0)
// The row before from its number `at` on, its ends, and its target; then no row waits.
#define FINISH(at) do { \
    size_t d = waiting; \
    for (; d >= (at) + 64; d -= 64) DIVIDE_FOUR(middle + d - 64); \
    for (; d > at; d -= 16) DIVIDE(middle + d - 16); \
    vstore16(begin * share, 0, before); \
    vstore16(end * share, 0, before + COLUMNS - 16); \
    if (hit >= 0) before[hit] -= part; \
    waits = false; \
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
    const size_t k = get_global_id(0), rows = ROWS, columns = COLUMNS, each = EACH;
    const size_t last = min(k * each + each, rows);
    float total = 0.0f, top = 0.0f, share = 0.0f, count = 1.0f;
#if MEAN == 1
    count = run_sum(n + n_at, COUNTED);
#elif MEAN == 2
    count = (float)count_others(target + target_at, ROWS, IGNORE);
#endif
    const float part = 1.0f / count;
    __global float *before = dx, *middle = dx;
    size_t waiting = 0;                          // numbers in `middle`
    int hit = -1;
    bool waits = false;
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
        float sum = 0.0f;
        if (COLUMNS >= 16) {
            const size_t head = -(row * columns) & 15, whole = (columns - head) & ~(size_t)15;
            const int rest = (int)(columns - head - whole);
            __global const float *from = p + head;
            __global float *to = q + head;
            float16 first, final, s0, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
            EXPONENTIAL(first, p);
            EXPONENTIAL(final, p + COLUMNS - 16);
            s0 = ONLY(LANES < (int)head, first) + ONLY(LANES >= 16 - rest, final);
            size_t c = 0;
            const size_t both = min(whole, waiting);
            for (; c + 64 <= both; c += 64) {
                FOUR_EXPONENTIALS(from + c, to + c);
                DIVIDE_FOUR(middle + c);
            }
            const size_t divided = c;
            for (; c + 64 <= whole; c += 64) FOUR_EXPONENTIALS(from + c, to + c);
            for (; c < whole; c += 16) {
                float16 y;
                EXPONENTIAL(y, from + c);
                vstore16(y, 0, to + c);
                s0 += y;
            }
            if (waits) FINISH(divided);
            s0 = (s0 + s1) + (s2 + s3);
            sum = LANE_SUM16(s0);
            if (sum > 1e-18f && sum < 1e18f) {
                share = (known ? part : NAN) / sum;
                begin = first;
                end = final;
                before = q;
                middle = to;
                waiting = whole;
                hit = known ? t : -1;
                waits = true;
                if (!WAITING) FINISH(0);
            }
        }
        const bool quick = sum > 1e-18f && sum < 1e18f;
        if (!quick) {
            top = -INFINITY;
            for (int c = 0; c < COLUMNS; c++) top = fmax(top, p[c]);
            sum = 0.0f;
            for (int c = 0; c < COLUMNS; c++) sum += q[c] = exp(p[c] - top);
            const float all = (known ? part : NAN) / sum;
            for (int c = 0; c < COLUMNS; c++) q[c] *= all;
            if (known) q[t] -= part;
        }
        const float off = known ? p[t] - top : NAN;
        // By its own exponential as the sum has it: what is wrong with it cancels, 1 + little keeps it.
        float16 own = 0.0f;
        if (quick) EXP16(own, (float16)(off));
        else own.s0 = exp(off);
        total += off > -40.0f ? log(sum / own.s0) : log(sum) - off;
        if (!(fabs(top) < INFINITY)) top = 0.0f;
    }
    if (waits) FINISH(0);
    loss[loss_at + k] = total / count;
}

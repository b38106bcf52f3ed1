// cross_entropy: loss[r] = log(sum(exp(x[r]))) - x[r][target[r]]
//                dx[r]   = (softmax(x[r]) - onehot(target[r])) / n[0] (MEAN), or undivided
// x, dx: f32 [ROWS][COLUMNS]; target: i32 [ROWS]; n: f32 [1] (MEAN only); loss: f32 [items], the sum of
// the losses of an item's EACH rows.
// A row whose target is IGNORE counts as zero; a target outside the classes gives NaN, so that
// it cannot pass unnoticed. The exponentials are computed once and wait in dx for their sum.
// A row goes in vectors from the first multiple of 16 on, counted from the start of x: there no load or
// store lies across two cache lines. What comes before and after is a vector each, not quite full.
// Item = EACH rows. Aliasing: dx may be x. Local memory: none. WG: 1.
#ifndef MEAN
#define MEAN 0
#endif
// Fewer than 16 numbers as a vector, and back: lanes beyond them are as good as absent.
#define LOAD_SOME(v, from, count) \
    for (int l = 0; l < 16; l++) lanes[l] = l < (count) ? (from)[l] : -INFINITY; \
    v = vload16(0, lanes)
#define STORE_SOME(v, to, count) \
    vstore16(v, 0, lanes); \
    for (int l = 0; l < (count); l++) (to)[l] = lanes[l]
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
    float lanes[16], total = 0.0f;
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
        const int head = min((int)(-(row * columns) & 15), COLUMNS);
        const int whole = head + (COLUMNS - head) / 16 * 16, rest = COLUMNS - whole;
        float16 begin = -INFINITY, end = -INFINITY;
        if (head) {
            LOAD_SOME(begin, p, head);
        }
        if (rest) {
            LOAD_SOME(end, p + whole, rest);
        }
        float16 tops = fmax(begin, end), more = -INFINITY;
        int c = head;
        for (; c + 32 <= whole; c += 32) {
            tops = fmax(tops, vload16(0, p + c));
            more = fmax(more, vload16(0, p + c + 16));
        }
        if (c < whole) tops = fmax(tops, vload16(0, p + c));
        tops = fmax(tops, more);
        const float top = LANE_MAX16(tops);
        const bool known = t >= 0 && t < COLUMNS;
        const float picked = known ? p[t] : NAN;     // read before dx may overwrite it
        float16 sums = 0.0f, e;
        for (c = head; c < whole; c += 16) {
            EXP16(e, vload16(0, p + c) - top);
            vstore16(e, 0, q + c);
            sums += e;
        }
        EXP16(begin, begin - top);
        EXP16(end, end - top);
        sums += begin + end;
        const float sum = LANE_SUM16(sums);
        total += log(sum) - (picked - top);          // top may be large
        const float share = (known ? part : NAN) / sum;
        for (c = head; c < whole; c += 16) vstore16(vload16(0, q + c) * share, 0, q + c);
        if (head) {
            STORE_SOME(begin * share, q, head);
        }
        if (rest) {
            STORE_SOME(end * share, q + whole, rest);
        }
        if (known) q[t] -= part;
    }
    loss[loss_at + k] = total;
}

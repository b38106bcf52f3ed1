// cross_entropy_narrow: cross_entropy of rows too short for vectors of their own; operands as there
// 16 rows at a time are COLUMNS vectors: exponentials run across rows, then each row gets its sum, and
// its share of the vectors is divided. Four such blocks go through each step before the next: what one
// step stores the next reads in other pieces, and would have to wait for it.
// Numbers from -66 to 21 need no largest one taken off first: their exponentials and sums fit, and
// rounding is only less. Where one is not (`stray` tells), the block's rows go one by one.
// Item = EACH rows, a multiple of 16. Aliasing: none. Local memory: none. WG: 1.
#ifndef MEAN
#define MEAN 0
#define COLUMNS 10
#define MORE 0
#endif
#define BLOCK (16 * COLUMNS)
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
// Lanes 0 to `count` of 16 numbers, the others 0.
#define FIRST(count, from) as_float16(as_int16(vload16(0, from)) & (LANES < (count)))
#if COLUMNS > 16
#define ROW(r) const float16 v##r = vload16(0, y + (r) * COLUMNS) + \
                                    FIRST(COLUMNS - 16, y + (r) * COLUMNS + 16);
#else
#define ROW(r) const float16 v##r = FIRST(COLUMNS, y + (r) * COLUMNS);
#endif
// The i-th vector of a block: each number gets its row's share, and is the target if it is where that is.
#define SHARED(i) { \
    const uint16 of = as_uint16((LANES + 16 * (i)) / COLUMNS); \
    const float16 v = vload16(i, y) * shuffle(share, of); \
    const int16 hit = shuffle(at, of) == LANES + 16 * (i); \
    vstore16(v * part - as_float16(as_int16((float16)(part)) & hit), i, q); \
    product *= select((float16)(1.0f), v, hit); \
}
// X(0) X(1) ... X(COLUMNS - 1)
#if COLUMNS > 16
#define ALL(X) EACH_ROW(16, X) EACH_ROW(MORE, HIGH_##X)
#else
#define ALL(X) EACH_ROW(COLUMNS, X)
#endif
#define HIGH_POWER(i) POWER(16 + (i))
#define HIGH_SHARED(i) SHARED(16 + (i))
#define POWER(i) { \
    const float16 v = vload16(i, p); \
    float16 z; \
    EXP16_NEAR(z, v, EXP16_ZERO, stray); \
    vstore16(z, i, y); \
}
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void cross_entropy_narrow(__global const float *x, const uint x_at, __global const int *target,
                          const uint target_at,
#if MEAN == 1
                          __global const float *n, const uint n_at,
#endif
                          __global float *loss, const uint loss_at, __global float *dx,
                          const uint dx_at, const int ROWS, const int IGNORE, const int EACH,
                          const int COUNTED) {
    const size_t k = get_global_id(0), last = min(k * EACH + EACH, (size_t)ROWS);
    __attribute__((aligned(64))) float e[4 * BLOCK + 16];
    float slow = 0.0f, count = 1.0f;
    int near[4];
    float16 mantissa = 1.0f;                     // of the product of all probabilities
    int16 exponent = 0;
    int done = 0;
#if MEAN == 1
    count = run_sum(n + n_at, COUNTED);
#elif MEAN == 2
    count = (float)count_others(target + target_at, ROWS, IGNORE);
#endif
    const float part = 1.0f / count;
    vstore16((float16)(0.0f), 0, e + 4 * BLOCK); // read with the last row, never used
    for (size_t row = k * EACH; row < last; row += 64) {
        const int here = (int)min(last - row, (size_t)64), blocks = here / 16;
        int single = here % 16;                  // how much goes one by one
        __global const float *p = x + x_at + row * COLUMNS;
        __global float *q = dx + dx_at + row * COLUMNS;
        __global const int *t = target + target_at + row;
        for (int b = 0; b < blocks; b++, p += BLOCK) {
            float *y = e + b * BLOCK;
            uint16 stray = 0;
            ALL(POWER)
            near[b] = !any(stray > 127);
            single += !near[b];
        }
        for (int b = 0; b < blocks; b++, q += BLOCK, t += 16) {
            if (!near[b]) continue;
            const float *y = e + b * BLOCK;
            EACH_ROW(16, ROW)
            const float16 sum = pair_sums16(
                pair_sums16(pair_sums16(pair_sums16(v0, v1), pair_sums16(v2, v3)),
                            pair_sums16(pair_sums16(v4, v5), pair_sums16(v6, v7))),
                pair_sums16(pair_sums16(pair_sums16(v8, v9), pair_sums16(v10, v11)),
                            pair_sums16(pair_sums16(v12, v13), pair_sums16(v14, v15))));
            const int16 to = vload16(0, t), used = to != IGNORE, known = (to >= 0) & (to < COLUMNS);
            const int16 at = select((int16)(-1), LANES * COLUMNS + to, used & known);
            // Nothing of what is ignored, NaN where there is no such class.
            const float16 share = as_float16(as_int16(1.0f / sum) & used) +
                                  as_float16((int16)(0x7fc00000) & used & ~known);
            float16 product = 1.0f;
            ALL(SHARED)
            if (any(product < 1e-18f) || any(used & ~known)) {
                near[b] = 0;                     // one by one: there NaN is added, and what is small
                single++;
                continue;
            }
            product *= mantissa;
            exponent += as_int16(product) >> 23;
            mantissa = as_float16((as_int16(product) & 0x7fffff) | 0x3f800000);
            done++;
        }
        if (!single) continue;
        p = x + x_at + row * COLUMNS;
        q = dx + dx_at + row * COLUMNS;
        t = target + target_at + row;
        for (int r = 0; r < here; r++, p += COLUMNS, q += COLUMNS) {     // as cross_entropy does it
            if (r / 16 < blocks && near[r / 16]) continue;
            const bool known = t[r] >= 0 && t[r] < COLUMNS;
            float top = -INFINITY, sum = 0.0f;
            for (int c = 0; c < COLUMNS; c++) top = fmax(top, p[c]);
            if (t[r] != IGNORE) {
                for (int c = 0; c < COLUMNS; c++) sum += e[c] = exp(p[c] - top);
                slow += log(sum) - ((known ? p[t[r]] : NAN) - top);
            }
            const float share = (known ? part : NAN) / sum;
            for (int c = 0; c < COLUMNS; c++)
                q[c] = t[r] == IGNORE ? 0.0f : e[c] * share - (t[r] == c ? part : 0.0f);
        }
    }
    const float16 logs = log(mantissa) + 0.693147181f * convert_float16(exponent - 127 * done);
    loss[loss_at + k] = (slow - LANE_SUM16(logs)) / count;
}

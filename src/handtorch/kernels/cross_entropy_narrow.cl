// cross_entropy_narrow: cross_entropy of rows too short for vectors of their own; operands as there
// 16 rows at a time are COLUMNS vectors: exponentials run across rows, then each row gets its sum, and
// is divided where it lies. Numbers smaller than LARGE need no largest one taken off first: their
// exponentials and sums fit, and rounding is only less. Where one is larger, rows go one by one.
// Item = EACH rows, a multiple of 16. Aliasing: dx may be x. Local memory: none. WG: 1.
#ifndef MEAN
#define MEAN 0
#define COLUMNS 10
#endif
#define LARGE 20.0f
#define BLOCK (16 * COLUMNS)
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
// Lanes 0 to `count` of 16 numbers, the others 0.
#define FIRST(count, from) as_float16(as_int16(vload16(0, from)) & (LANES < (count)))
#if COLUMNS > 16
#define ROW(r) const float16 v##r = vload16(0, e + (r) * COLUMNS) + \
                                    FIRST(COLUMNS - 16, e + (r) * COLUMNS + 16);
#else
#define ROW(r) const float16 v##r = FIRST(COLUMNS, e + (r) * COLUMNS);
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void cross_entropy_narrow(__global const float *x, const uint x_at, __global const int *target,
                          const uint target_at,
#if MEAN
                          __global const float *n, const uint n_at,
#endif
                          __global float *loss, const uint loss_at, __global float *dx,
                          const uint dx_at, const int ROWS, const int IGNORE, const int EACH) {
    const size_t k = get_global_id(0), last = min(k * EACH + EACH, (size_t)ROWS);
    float e[BLOCK + 16], sums[16], parts[16], picked[16], slow = 0.0f;
    float16 total = 0.0f;
#if MEAN
    const float part = 1.0f / n[n_at];
#else
    const float part = 1.0f;
#endif
    vstore16((float16)(0.0f), 0, e + BLOCK);     // read with the last row, never used
    for (size_t row = k * EACH; row < last; row += 16) {
        __global const float *p = x + x_at + row * COLUMNS;
        __global float *q = dx + dx_at + row * COLUMNS;
        __global const int *t = target + target_at + row;
        const int here = (int)min(last - row, (size_t)16);
        int16 small = here == 16 ? -1 : 0;       // NaN is not
        if (here == 16) {
            for (int i = 0; i < BLOCK; i += 16) {
                const float16 v = vload16(0, p + i);
                float16 y;
                EXP16(y, v);
                vstore16(y, 0, e + i);
                small &= fabs(v) < LARGE;
            }
        }
        if (all(small)) {
            EACH_ROW(16, ROW)
            const float16 sum = pair_sums16(
                pair_sums16(pair_sums16(pair_sums16(v0, v1), pair_sums16(v2, v3)),
                            pair_sums16(pair_sums16(v4, v5), pair_sums16(v6, v7))),
                pair_sums16(pair_sums16(pair_sums16(v8, v9), pair_sums16(v10, v11)),
                            pair_sums16(pair_sums16(v12, v13), pair_sums16(v14, v15))));
            vstore16(sum, 0, sums);
            for (int r = 0; r < 16; r++) {
                const bool known = t[r] >= 0 && t[r] < COLUMNS;
                parts[r] = t[r] == IGNORE ? 0.0f : known ? part : NAN;
                picked[r] = t[r] == IGNORE ? sums[r] : known ? e[r * COLUMNS + t[r]] : NAN;
            }
            total += log(sum / vload16(0, picked));
            vstore16(vload16(0, parts) / sum, 0, sums);
            for (int r = 0; r < 16; r++) {
                for (int at = r * COLUMNS; at < (r + 1) * COLUMNS; at += 16) {
                    if (at + 16 <= BLOCK) {      // what hangs over is written again by its own row
                        vstore16(vload16(0, e + at) * sums[r], 0, q + at);
                    } else {
                        for (int i = at; i < (r + 1) * COLUMNS; i++) q[i] = e[i] * sums[r];
                    }
                }
                if (t[r] >= 0 && t[r] < COLUMNS && t[r] != IGNORE)
                    q[r * COLUMNS + t[r]] = e[r * COLUMNS + t[r]] * sums[r] - part;
            }
            continue;
        }
        for (int r = 0; r < here; r++, p += COLUMNS, q += COLUMNS) {     // as cross_entropy does it
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
    loss[loss_at + k] = slow + LANE_SUM16(total);
}

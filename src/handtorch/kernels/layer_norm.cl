// layer_norm: mean and scale = 1 / sqrt(variance + EPS) of each row; y = (x - mean) * scale [* w [+ b]]
// x, y: f32 [ROWS][COLUMNS]; mean, scale: f32 [ROWS]; w, b: f32 [COLUMNS].
// AFFINE: 0 none, 1 w, 2 w and b.  For rows that fit the cache: they are read three times.
// Item = one row. Aliasing: y may be x. Local memory: none. WG: 1.
#ifndef AFFINE
#define AFFINE 0
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layer_norm(__global const float *x, const uint x_at,
#if AFFINE > 0
                __global const float *w, const uint w_at,
#endif
#if AFFINE > 1
                __global const float *b, const uint b_at,
#endif
                __global float *y, const uint y_at, __global float *mean, const uint mean_at,
                __global float *scale, const uint scale_at, const int COLUMNS, const float EPS) {
    const size_t row = get_global_id(0), columns = COLUMNS;
    __global const float *p = x + x_at + row * columns;
    __global float *q = y + y_at + row * columns;
    const float count = (float)COLUMNS;
    float16 sums = 0.0f, left = 0.0f, squares = 0.0f;
    size_t c = 0;
    for (; c + 16 <= columns; c += 16) sums += vload16(0, p + c);
    float sum = LANE_SUM16(sums);
    for (; c < columns; c++) sum += p[c];
    const float first = sum / count;
    for (c = 0; c + 16 <= columns; c += 16) {
        const float16 d = vload16(0, p + c) - first;
        left += d;
        squares += d * d;
    }
    float rest = LANE_SUM16(left), square = LANE_SUM16(squares);
    for (; c < columns; c++) {
        const float d = p[c] - first;
        rest += d;
        square += d * d;
    }
    rest /= count;                               // what rounding left in the mean
    const float middle = first + rest, by = 1.0f / sqrt(square / count - rest * rest + EPS);
    mean[mean_at + row] = middle;
    scale[scale_at + row] = by;
    for (c = 0; c + 16 <= columns; c += 16) {
        float16 v = (vload16(0, p + c) - middle) * by;
#if AFFINE > 0
        v *= vload16(0, w + w_at + c);
#endif
#if AFFINE > 1
        v += vload16(0, b + b_at + c);
#endif
        vstore16(v, 0, q + c);
    }
    for (; c < columns; c++) {
        float v = (p[c] - middle) * by;
#if AFFINE > 0
        v *= w[w_at + c];
#endif
#if AFFINE > 1
        v += b[b_at + c];
#endif
        q[c] = v;
    }
}

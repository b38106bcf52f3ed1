// norm_grad_sums: sums of g * (x - mean) * scale and of g of channel c in its k-th chunk, parts[k][0..1][c]
// g, x: f32 [PLANES][CHANNELS][SIZE]; mean, scale: f32 [CHANNELS / SHARE]; parts: f32 [chunks][2][CHANNELS].
// A chunk is TAKE planes, or a PIECE of each of them where planes are long.
// Item = one chunk of one channel. Aliasing: none. Local memory: none. WG: 1.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void norm_grad_sums(__global const float *g, const uint g_at, __global const float *x,
                    const uint x_at, __global const float *mean, const uint mean_at,
                    __global const float *scale, const uint scale_at, __global float *parts,
                    const uint parts_at, const int PLANES, const int CHANNELS, const int SIZE,
                    const int TAKE, const int PIECE, const int SHARE) {
    const size_t k = get_global_id(0), c = get_global_id(1), size = SIZE, piece = PIECE;
    const size_t pieces = (size + piece - 1) / piece, channels = CHANNELS;
    const size_t first = k / pieces * TAKE, last = min(first + TAKE, (size_t)PLANES);
    const size_t from = k % pieces * piece, to = min(from + piece, size);
    const float middle = mean[mean_at + c / SHARE];
    float16 products = 0.0f, sums = 0.0f;
    float product = 0.0f, sum = 0.0f;
    for (size_t n = first; n < last; n++) {
        const size_t at = (n * channels + c) * size;
        __global const float *pg = g + g_at + at, *px = x + x_at + at;
        size_t s = from;
        for (; s + 16 <= to; s += 16) {
            const float16 v = vload16(0, pg + s);
            sums += v;
            products += v * (vload16(0, px + s) - middle);
        }
        for (; s < to; s++) {
            sum += pg[s];
            product += pg[s] * (px[s] - middle);
        }
    }
    __global float *q = parts + parts_at + k * 2 * channels + c;
    q[0] = (product + LANE_SUM16(products)) * scale[scale_at + c / SHARE];
    q[channels] = sum + LANE_SUM16(sums);
}

// norm_stats: mean and summed squared deviations of channel c in its k-th chunk, into parts[k][0..1][c]
// x: f32 [PLANES][CHANNELS][SIZE], parts: f32 [chunks][2][CHANNELS]. A chunk is TAKE planes, or a PIECE
// of each of them where planes are long.
// Item = one chunk of one channel; two sweeps over what then lies in the cache. The deviations' own
// sum takes out what rounding left in the mean. Aliasing: none. Local memory: none. WG: 1.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void norm_stats(__global const float *x, const uint x_at, __global float *parts,
                const uint parts_at, const int PLANES, const int CHANNELS, const int SIZE,
                const int TAKE, const int PIECE) {
    const size_t k = get_global_id(0), c = get_global_id(1), size = SIZE, piece = PIECE;
    const size_t pieces = (size + piece - 1) / piece, channels = CHANNELS;
    const size_t first = k / pieces * TAKE, last = min(first + TAKE, (size_t)PLANES);
    const size_t from = k % pieces * piece, to = min(from + piece, size);
    const float count = (float)((last - first) * (to - from));
    float16 sums = 0.0f;
    float sum = 0.0f;
    for (size_t n = first; n < last; n++) {
        __global const float *p = x + x_at + (n * channels + c) * size;
        size_t s = from;
        for (; s + 16 <= to; s += 16) sums += vload16(0, p + s);
        for (; s < to; s++) sum += p[s];
    }
    const float middle = (sum + LANE_SUM16(sums)) / count;
    float16 left = 0.0f, squares = 0.0f;
    float left1 = 0.0f, square1 = 0.0f;
    for (size_t n = first; n < last; n++) {
        __global const float *p = x + x_at + (n * channels + c) * size;
        float16 run = 0.0f;
        size_t s = from;
        for (; s + 16 <= to; s += 16) {
            const float16 d = vload16(0, p + s) - middle;
            left += d;
            run += d * d;
        }
        squares += run;
        for (; s < to; s++) {
            const float d = p[s] - middle;
            left1 += d;
            square1 += d * d;
        }
    }
    const float rest = (left1 + LANE_SUM16(left)) / count;
    __global float *q = parts + parts_at + k * 2 * channels + c;
    q[0] = middle + rest;
    q[channels] = square1 + LANE_SUM16(squares) - rest * rest * count;
}

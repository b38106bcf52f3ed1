// lstm_diagonal: the gates of all cells on one anti-diagonal of (layer, time), before activation:
//   gates[l][b] = bias[l] + [input, h[l][b]] W[l],   t = D - l
// x f32 [T][BATCH][H] is the input of layer 0; that of layer l is h[l - 1], which still holds time t.
// h f32 [L][BATCH][H] holds time t - 1 of layer l; at t = 0 it counts as zeros. W f32 [L][2 H][PADDED],
// bias f32 [L][PADDED], gates f32 [L][BATCH][PADDED]: 4 H columns i f g o, then zeros up to a multiple of
// COLUMNS, so that no item asks where the edge is. h changes only in lstm_cells, after this launch.
// Item = unit of work (0), sequence (1), cell of the anti-diagonal from layer FIRST on (2). A unit takes
// COLUMNS columns at a time, and every get_global_size(0)-th such block. Aliasing: none.
// Local memory: none. WG: 1 x 1 x 1. COLUMNS is 1 to 16.
#ifndef COLUMNS
#define COLUMNS 10
#endif
#define START_COLUMN(c) float a##c = from[c];
#define ADD_COLUMN(c) a##c = fma(value, w[c], a##c);
#define STORE_COLUMN(c) to[c] = a##c;
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void lstm_diagonal(__global const float *x, const uint x_at, __global const float *W, const uint W_at,
                   __global const float *bias, const uint bias_at, __global const float *h, const uint h_at,
                   __global float *gates, const uint gates_at, const int BATCH, const int H,
                   const int PADDED, const int D, const int FIRST) {
    const size_t b = get_global_id(1), layer = FIRST + get_global_id(2), time = D - layer;
    const size_t wide = PADDED, row = layer * BATCH + b;
    __global const float *input = layer ? h + h_at + (row - BATCH) * H
                                        : x + x_at + (time * BATCH + b) * H;
    __global const float *own = h + h_at + row * H;
    const int depth = time ? H : 0;              // before the first step there is no h
    for (size_t at = get_global_id(0) * COLUMNS; at < wide; at += get_global_size(0) * COLUMNS) {
        __global const float *from = bias + bias_at + layer * wide + at;
        __global const float *w = W + W_at + layer * 2 * H * wide + at;
        EACH_ROW(COLUMNS, START_COLUMN)
        for (int k = 0; k < H; ++k, w += wide) {
            const float value = input[k];
            EACH_ROW(COLUMNS, ADD_COLUMN)
        }
        for (int k = 0; k < depth; ++k, w += wide) {
            const float value = own[k];
            EACH_ROW(COLUMNS, ADD_COLUMN)
        }
        __global float *to = gates + gates_at + row * wide + at;
        EACH_ROW(COLUMNS, STORE_COLUMN)
    }
}

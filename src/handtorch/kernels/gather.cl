// gather: y[a][j][b] = x[a][index[a][j][b]][b]; BAD where the index is outside.
// x: TYPE [A][N][B]; index: i32, y: TYPE [A][J][B]. TYPE is an integer of BYTES.
// Item = one element of y. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef BYTES
#define BYTES 4
#define GROUP 16
#endif
#if BYTES == 1
#define TYPE uchar
#else
#define TYPE uint
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void gather(__global const TYPE *x, const uint x_at, __global const int *index, const uint index_at,
            __global TYPE *y, const uint y_at, const uint ITEMS, const uint J, const int N,
            const uint B, const uint BAD) {
    const size_t i = get_global_id(0);
    if (i >= ITEMS) return;                         // the last group may hang over the edge
    const uint line = (uint)i / B, b = (uint)i - line * B, a = line / J;
    const int n = index[index_at + i];
    y[y_at + i] = n >= 0 && n < N ? x[x_at + (a * (size_t)N + n) * B + b] : (TYPE)BAD;
}

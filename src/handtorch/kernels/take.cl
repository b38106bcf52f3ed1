// take: y[a][j] = x[a][index[j]], rows of B elements; BAD everywhere in a row whose index is no row.
// x: TYPE [A][N][B], index: i32 [J], y: TYPE [A][J][B]. With WRAP an index from -N counts from the
// end. TYPE is an integer of BYTES. Aliasing: none.
// Item = V elements of a row of y; ITEMS = A J CHUNKS, CHUNKS = ceil(B / V). Local memory: none.
// WG: GROUP.
#ifndef BYTES
#define BYTES 4
#define V 4
#define WRAP 0
#define GROUP 16
#endif
#if BYTES == 1
#define TYPE uchar
#else
#define TYPE uint
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void take(__global const TYPE *x, const uint x_at, __global const int *index, const uint index_at,
          __global TYPE *y, const uint y_at, const uint ITEMS, const uint CHUNKS, const uint J,
          const int N, const uint B, const uint BAD) {
    const uint item = get_global_id(0);
    if (item >= ITEMS) return;                      // the last group may hang over the edge
    const uint row = item / CHUNKS, b = (item - row * CHUNKS) * V, a = row / J, j = row - a * J;
    int n = index[index_at + j];
#if WRAP
    n += n < 0 ? N : 0;
#endif
    const bool known = n >= 0 && n < N;
    const size_t from = x_at + (a * (size_t)N + (known ? n : 0)) * B + b;
    const size_t to = y_at + row * (size_t)B + b;
    if (known && b + V <= B) {
        STORE_V(LOAD_V(0, x + from), 0, y + to);
    } else {
        for (size_t l = 0; l < V && b + l < B; ++l) y[to + l] = known ? x[from + l] : (TYPE)BAD;
    }
}

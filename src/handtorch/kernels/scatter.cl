// scatter: y[a][index[a][j][b]][b] = src[a][j][b], in the order of j; += if ADD.
// index: i32, src: TYPE [A][J][B]; y: TYPE [A][N][B], holds the start values and is changed in place.
// TYPE: f32, i32, bool (KIND 0, 1, 2). An index that is outside makes y[a][0][b] BAD. Aliasing: none. Local memory: none.
// Item = one (a, b): it alone writes there, so no atomics and always the same sum. WG: GROUP.
#ifndef KIND
#define KIND 0
#define ADD 1
#define GROUP 16
#endif
#if KIND == 0
#define TYPE float
#define BAD NAN
#elif KIND == 1
#define TYPE int
#define BAD INT_MIN
#else
#define TYPE uchar
#define BAD 0
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scatter(__global const int *index, const uint index_at, __global const TYPE *src,
             const uint src_at, __global TYPE *y, const uint y_at, const uint ITEMS, const int J,
             const int N, const uint B) {
    const size_t i = get_global_id(0);
    if (i >= ITEMS) return;                         // the last group may hang over the edge
    const size_t a = (uint)i / B, b = (uint)i - a * B;
    __global TYPE *to = y + y_at + a * N * B + b;
    bool wrong = false;
    for (int j = 0; j < J; ++j) {
        const size_t at = (a * J + j) * B + b;
        const int n = index[index_at + at];
        if (n < 0 || n >= N) {
            wrong = true;
        } else {
#if ADD
            to[(size_t)n * B] += src[src_at + at];
#else
            to[(size_t)n * B] = src[src_at + at];
#endif
        }
    }
    if (wrong) to[0] = BAD;
}

// put: y[a][index[j]] = src[a][j], rows of B elements, in the order of j; += if ADD.
// index: i32 [J], src: TYPE [A][J][B], y: TYPE [A][N][B], holds the start values and is changed in
// place. TYPE: f32, i32, bool (KIND 0, 1, 2). An index equal to SKIP is passed over; with WRAP one
// from -N counts from the end; one that is no row makes row 0 of y BAD. Aliasing: none. Local
// memory: none.
// Item = STRIP columns (a multiple of V) of PART rows of one a: it alone writes there, so no atomics
// and always the same sum; all items read the whole index, 16 at a time. WG: 1.
#ifndef KIND
#define KIND 0
#define V 4
#define ADD 1
#define WRAP 0
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
#if ADD
#define WITH(old) + old
#else
#define WITH(old)
#endif
#if WRAP
#define FROM_START(n, zero) n += select(zero, zero + N, n < 0);
#else
#define FROM_START(n, zero)
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void put(__global const int *index, const uint index_at, __global const TYPE *src,
         const uint src_at, __global TYPE *y, const uint y_at, const int J, const int N, const int B,
         const int STRIP, const int PART, const int SKIP) {
    const size_t a = get_global_id(2), b = get_global_id(0) * STRIP;
    const int first = get_global_id(1) * PART, last = min(first + PART, N);
    const size_t columns = min((size_t)STRIP, B - b);
    __global const TYPE *from = src + src_at + a * J * B + b;
    __global TYPE *to = y + y_at + a * N * B + b;
    bool wrong = false;
    for (int block = 0; block < J; block += 16) {
        const int count = min(J - block, 16);
        if (count == 16) {                           // most blocks have nothing for this item
            int16 n = vload16(0, index + index_at + block);
            FROM_START(n, (int16)0)
            if (!any((n >= first) & (n < last))) {
                wrong |= any((n < 0) | (n >= N));
                continue;
            }
        }
        for (int j = block; j < block + count; ++j) {
            int n = index[index_at + j];
            FROM_START(n, 0)
            wrong |= n < 0 || n >= N;
            if (n < first || n >= last || n == SKIP) continue;
            __global const TYPE *s = from + (size_t)j * B;
            __global TYPE *d = to + (size_t)n * B;
            size_t c = 0;
            for (; c + V <= columns; c += V) STORE_V(LOAD_V(0, s + c) WITH(LOAD_V(0, d + c)), 0, d + c);
            for (; c < columns; ++c) d[c] = s[c] WITH(d[c]);
        }
    }
    if (wrong && first == 0)
        for (size_t c = 0; c < columns; ++c) to[c] = BAD;
}

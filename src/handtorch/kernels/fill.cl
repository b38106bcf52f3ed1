// fill: y = BITS everywhere     y: TYPE [COUNT], an integer of BYTES.
// Item = 16 elements. Local memory: none. WG: GROUP.
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
void fill(__global TYPE *y, const uint y_at, const uint COUNT, const uint BITS) {
    const size_t i = get_global_id(0) * 16, count = COUNT;
    if (i + 16 <= count) {
        vstore16((VEC(TYPE, 16))((TYPE)BITS), 0, y + y_at + i);
    } else {
        for (size_t l = i; l < count; ++l) y[y_at + l] = (TYPE)BITS;
    }
}

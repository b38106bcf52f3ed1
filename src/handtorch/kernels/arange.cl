// arange: y[i] = START + i STEP     y: i32 [COUNT]. Item = one element. Local memory: none. WG: GROUP.
#ifndef GROUP
#define GROUP 16
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void arange(__global int *y, const uint y_at, const int COUNT, const int START, const int STEP) {
    const size_t i = get_global_id(0);
    if (i < (size_t)COUNT) y[y_at + i] = START + (int)i * STEP;
}

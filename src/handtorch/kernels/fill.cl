// fill: y = NUMBER everywhere     y: f32 [COUNT]. Item = one element. WG: GROUP.
#ifndef GROUP
#define GROUP 16
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void fill(__global float *y, const uint y_at, const int COUNT, const float NUMBER) {
    const size_t i = get_global_id(0);
    if (i < (size_t)COUNT) y[y_at + i] = NUMBER;
}

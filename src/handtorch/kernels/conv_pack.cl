// conv_pack: y[g][p][a][b][l] = x[g SG + (p W + l) SL + a SA + b SB], 0 for lanes beyond LANES; then
// one 0 behind the last element: the source of pixels that lie in the padding.
// x f32, y f32 [GROUPS][PANELS][A][B][W] + 1; y may not overlap x.  A: dimension 2 of the launch.
// Item = one panel, one a, BB values of b.  Local memory: none.  Work-group: 1.
#ifndef W
#define W 8
#define BB 16
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_pack(__global const float *x, const uint x_at, __global float *y, const uint y_at,
               const int LANES, const int B, const int PANELS,
               const int SG, const int SL, const int SA, const int SB) {
    const size_t panel = get_global_id(0), a = get_global_id(2), steps = B;
    const size_t first = get_global_id(1) * BB, last = min(first + BB, steps);
    const size_t group = panel / PANELS, lane = panel % PANELS * W;
    const size_t used = min((size_t)W, LANES - lane);
    __global const float *from = x + x_at + group * SG + lane * SL + a * SA;
    __global float *to = y + y_at + ((panel * get_global_size(2) + a) * steps + first) * W;
    for (size_t b = first; b < last; ++b, to += W)
        for (size_t l = 0; l < W; ++l) to[l] = l < used ? from[l * SL + b * SB] : 0.0f;
    if (panel + 1 == get_global_size(0) && a + 1 == get_global_size(2) && last == steps) to[0] = 0.0f;
}

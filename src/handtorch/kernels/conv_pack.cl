// conv_pack: y[g][p][t][b][l] = x[t ST + g SG + (p W + l) SL + b SB], 0 for lanes beyond LANES.
// x f32, y f32 [GROUPS][PANELS][T][B][W]; y may not overlap x.  T: dimension 2 of the launch.
// TURNED: SB = 1, tiles of 16 x 16 are turned in private memory, so that every cache line is touched
// once; else SL = 1.  Item = one panel, one t, 16 values of b.  Local memory: none.  Work-group: 1.
#ifndef W
#define W 8
#define TURNED 0
#endif
#define AT(l) tile[16 * l + r]
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_pack(__global const float *x, const uint x_at, __global float *y, const uint y_at,
               const int LANES, const int B, const int PANELS,
               const int ST, const int SG, const int SL, const int SB) {
    const size_t panel = get_global_id(0), t = get_global_id(2), first = get_global_id(1) * 16;
    const size_t lane = panel % PANELS * W, used = min((size_t)W, LANES - lane);
    const size_t count = min((size_t)16, B - first), sl = SL, sb = SB;
    __global const float *from = x + x_at + t * ST + panel / PANELS * SG + lane * sl + first * sb;
    __global float *to = y + y_at + ((panel * get_global_size(2) + t) * B + first) * W;
#if W % 16 == 0 && TURNED
    if (used == W && count == 16) {
        for (size_t l = 0; l < W; l += 16) {
            float tile[256];
            for (size_t r = 0; r < 16; ++r) vstore16(vload16(0, from + (l + r) * sl), r, tile);
            for (size_t r = 0; r < 16; ++r)
                vstore16((float16)(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8),
                                   AT(9), AT(10), AT(11), AT(12), AT(13), AT(14), AT(15)),
                         0, to + r * W + l);
        }
        return;
    }
#elif W % 16 == 0
    if (used == W) {
        for (size_t b = 0; b < count; ++b)
            for (size_t l = 0; l < W; l += 16) vstore16(vload16(0, from + b * sb + l), 0, to + b * W + l);
        return;
    }
#endif
    for (size_t b = 0; b < count; ++b)
        for (size_t l = 0; l < W; ++l) to[b * W + l] = l < used ? from[l * sl + b * sb] : 0.0f;
}

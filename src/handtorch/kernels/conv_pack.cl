// conv_pack: y[g][p][t][b][l] = x[t ST + g SG + (p W + l) SL + b SB], 0 for lanes beyond LANES.
// x f32, y f32 [GROUPS][PANELS][T][B][W]; y may not overlap x.  T: dimension 2 of the launch.
// TURNED: SB = 1, tiles of 16 x 16 are turned in registers, so that every cache line is touched once;
// else SL = 1.  Rows of x (SL, else SB) lie one after the other in [T] [ST].
// Item = one panel, one t, RUN values of b: RUN of them lie side by side (TURNED), or are rows of W.
// A rest of fewer than 16 goes to the item before. Local memory: none.  Work-group: 1.
#ifndef W
#define W 8
#define TURNED 0
#endif
#define PLACE(i) __global const float *p##i = from + min(row + min(l + i, used - 1) * sl, safe);
#define LOAD(i) const float16 a##i = vload16(0, p##i + b);
#define NEXT(i) AHEAD(p##i + next);
#define PUT(r) vstore16(as_float16(as_int16(c##r) & kept), 0, to + (b + r) * W + l);
#define PUT_SOME(r) if (r < depth) PUT(r)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_pack(__global const float *x, const uint x_at, __global float *y, const uint y_at,
               const int LANES, const int B, const int PANELS, const int RUN,
               const int ST, const int SG, const int SL, const int SB) {
    const size_t panel = get_global_id(0), t = get_global_id(2), first = get_global_id(1) * RUN;
    const size_t depth = B, lane = panel % PANELS * W, used = min((size_t)W, LANES - lane);
    const size_t sl = SL, sb = SB, end = first + RUN + 16 > depth ? depth : first + RUN;
    if (first > 0 && first + 16 > depth) return;
    const size_t row = t * ST + panel / PANELS * SG + lane * sl;
    __global const float *from = x + x_at;
    __global float *to = y + y_at + (panel * get_global_size(2) + t) * depth * W;
#if W % 16 == 0 && !TURNED
    for (size_t b = first; b < end; ++b) {
        __global const float *here = from + row + b * sb;
        __global float *line = to + b * W;
        if (used == W) {
            for (size_t l = 0; l < W; l += 16) AHEAD(here + 16 * sb + l);
            for (size_t l = 0; l < W; l += 16) vstore16(vload16(0, here + l), 0, line + l);
            continue;
        }
        size_t l = 0;
        for (; l + 16 <= used; l += 16) vstore16(vload16(0, here + l), 0, line + l);
        if (used & 8) { vstore8(vload8(0, here + l), 0, line + l); l += 8; }
        if (used & 4) { vstore4(vload4(0, here + l), 0, line + l); l += 4; }
        for (; l < used; ++l) line[l] = here[l];
        for (; l % 4 > 0; ++l) line[l] = 0.0f;
        for (; l < W; l += 4) vstore4((float4)(0.0f), 0, line + l);
    }
#else
#if W % 16 == 0
    const size_t all = get_global_size(2) * ST;
    if (all >= 16) {
        // Of 16 values or more the last tile is moved left until it ends with them. Fewer are loaded
        // with what follows them, or, where nothing does, one by one in the end.
        const size_t last = depth < 16 ? 0 : depth - 16, safe = all - 16;
        for (size_t l = 0; l < W; l += 16) {
            const int16 kept = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
                               < (int16)((int)used - (int)l);
            EACH_ROW(16, PLACE)
            for (size_t s = first; s < end; s += 16) {
                const size_t b = min(s, last), next = depth < 16 ? 128 * sl : min(b + 32, last);
                EACH_ROW(16, LOAD)
                EACH_ROW(16, NEXT)
                TURN16(a, c)
                if (depth < 16) {
                    EACH_ROW(16, PUT_SOME)
                } else {
                    EACH_ROW(16, PUT)
                }
            }
        }
        for (size_t l = used; l > 0 && row + (l - 1) * sl + last > safe; --l)
            for (size_t b = first; b < end; ++b) to[b * W + l - 1] = from[row + (l - 1) * sl + b];
        return;
    }
#endif
    for (size_t b = first; b < end; ++b)
        for (size_t l = 0; l < W; ++l) to[b * W + l] = l < used ? from[row + l * sl + b * sb] : 0.0f;
#endif
}

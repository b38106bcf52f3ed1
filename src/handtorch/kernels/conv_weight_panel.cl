// conv_weight_panel: part[s][o][c][t] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][o][oh][ow] x[n][c][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw DIL_W]
// x f32 [N][GROUPS INNER][IN_H][IN_W], dy f32 [GROUPS][panels][N OUT_H][OUT_W][W] of conv_pack,
// part f32 [chunks][GROUPS OUTER][INNER][KH KW]; part may overlap no other operand.
// Item = R channels of x x W = NV V channels of dy, one tap, one chunk of ROWS rows; what lies in the
// padding is never visited.  Local memory: none.  Work-group: WGX x WGY; 1 x 1 on a CPU.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define WGX 1
#define WGY 1
#endif
#define W (NV * V)
#define LOAD_V HT_CAT(vl, HT_CAT(oad, V))
#define STORE_V HT_CAT(vs, HT_CAT(tore, V))
#define FLOATS VEC(float, V)
#define START(r) EACH_COL(NV, ZERO, r)
#define ZERO(r, v) FLOATS c##r##_##v = 0.0f;
#define POINT(r) __global const float *p##r = from + min((size_t)r, INNER - 1 - channel) * plane;
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b);
#define MULTIPLY(r) { const FLOATS a = p##r[at]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#define STORE_ROW(r) if (channel + r < (size_t)INNER) { \
        EACH_COL(NV, KEEP, r) \
        for (size_t l = 0; l < used; ++l) to[(l * INNER + r) * taps] = lanes[l]; }
#define KEEP(r, v) STORE_V(c##r##_##v, v, lanes);
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void conv_weight_panel(__global const float *dy, const uint dy_at,
                       __global const float *x, const uint x_at,
                       __global float *part, const uint part_at,
                       const int N, const int GROUPS, const int INNER, const int OUTER,
                       const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                       const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
                       const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W,
                       const int ROWS) {
    const size_t taps = (size_t)KH * KW, panels = (OUTER + W - 1) / W;
    const size_t channel = get_global_id(0) / taps * R, tap = get_global_id(0) % taps;
    const size_t panel = get_global_id(1) % panels, group = get_global_id(1) / panels;
    if (channel >= (size_t)INNER || group >= (size_t)GROUPS) return;    // groups may hang over
    const size_t plane = (size_t)IN_H * IN_W, first = panel * W, chunk = get_global_id(2);
    const size_t used = min((size_t)W, OUTER - first);
    const int off_h = (int)(tap / KW) * DIL_H - PAD_H, off_w = (int)(tap % KW) * DIL_W - PAD_W;
    const int low = max((-off_w + STRIDE_W - 1) / STRIDE_W, 0);
    const int high = min(IN_W <= off_w ? 0 : (IN_W - 1 - off_w) / STRIDE_W + 1, OUT_W);
    const int last = min((int)(chunk + 1) * ROWS, N * OUT_H);
    EACH_ROW(R, START)
    for (int row = chunk * ROWS; row < last; ++row) {
        const int h = row % OUT_H * STRIDE_H + off_h;
        if (h < 0 || h >= IN_H) continue;
        const size_t image = ((size_t)(row / OUT_H) * GROUPS + group) * INNER + channel;
        __global const float *from = x + x_at + image * plane + (size_t)h * IN_W;
        __global const float *b = dy + dy_at +
            ((get_global_id(1) * N * OUT_H + row) * OUT_W + low) * W;
        EACH_ROW(R, POINT)
        long at = (long)low * STRIDE_W + off_w;
        for (int ow = low; ow < high; ++ow, b += W, at += STRIDE_W) {
            EACH_COL(NV, LOAD, 0)
            EACH_ROW(R, MULTIPLY)
        }
    }
    float lanes[W];
    __global float *to = part + part_at + ((chunk * GROUPS + group) * OUTER + first) * INNER * taps
                         + channel * taps + tap;
    EACH_ROW(R, STORE_ROW)
}

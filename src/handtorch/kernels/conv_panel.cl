// conv_panel: y[n][m][u] = f(sum over taps t and channels c of w[m][c][t] x[n][c][source(u, t)])
//   source = (u / OUT_STEP) IN_STEP + (u % OUT_STEP - PAD + k DIL) / OUT_STEP on each axis, nothing if
//   that is no whole number or lies outside x. A convolution: IN_STEP = stride, OUT_STEP = 1. Its
//   gradient for x: IN_STEP = 1, OUT_STEP = stride, PAD and DIL negative.
//   f(s) = s, then + bias[m] if BIAS, then max(s, 0) if ACT.
// x f32 [N][GROUPS INNER][IN_H][IN_W], y f32 [N][GROUPS OUTER][OUT_H][OUT_W], bias f32 [GROUPS OUTER],
// w f32 [GROUPS][panels][KH KW][INNER][W] and a 0, of conv_pack.  y may overlap no other operand.
// Item = R pixels of one class (u % OUT_STEP) x W = NV V channels, in registers; pixels run across
// rows and images.  Local memory: none.  Work-group: WGX pixel tiles x WGY panels; 1 x 1 on a CPU.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define BIAS 0
#define ACT 0
#define WGX 1
#define WGY 1
#endif
#define W (NV * V)
#define LOAD_V HT_CAT(vl, HT_CAT(oad, V))
#define STORE_V HT_CAT(vs, HT_CAT(tore, V))
#define FLOATS VEC(float, V)
#define PIXEL(r) \
    const int q##r = min(tile + r, pixels - 1), i##r = q##r / GW % GH, j##r = q##r % GW; \
    const size_t n##r = q##r / (GW * GH); \
    __global const float *x##r = x + x_at + (n##r * GROUPS + group) * INNER * plane; \
    EACH_COL(NV, ZERO, r)
#define ZERO(r, v) FLOATS c##r##_##v = 0.0f;
#define POINT(r) \
    const int h##r = i##r * IN_STEP_H + off_h, v##r = j##r * IN_STEP_W + off_w; \
    const int in##r = h##r >= 0 && h##r < IN_H && v##r >= 0 && v##r < IN_W; \
    __global const float *p##r = in##r ? x##r + (size_t)h##r * IN_W + v##r : zero; \
    const size_t s##r = in##r ? plane : 0;
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b);
#define MULTIPLY(r) { const FLOATS a = *p##r; p##r += s##r; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#define PLACE(r) \
    const int y##r = i##r * OUT_STEP_H + class_h, z##r = j##r * OUT_STEP_W + class_w; \
    const int own##r = tile + r < pixels && y##r < OUT_H && z##r < OUT_W; \
    __global float *to##r = y + y_at + ((n##r * GROUPS + group) * OUTER + first) * size \
                            + (own##r ? (size_t)y##r * OUT_W + z##r : 0); \
    EACH_COL(NV, KEEP, r)
#define KEEP(r, v) STORE_V(c##r##_##v, v, lanes + r * W);
#define STORE(r) if (own##r) { \
        float s = lanes[r * W + l]; \
        ADD_BIAS APPLY \
        to##r[l * size] = s; }
#if BIAS
#define ADD_BIAS s += bias[bias_at + group * OUTER + first + l];
#else
#define ADD_BIAS
#endif
#if ACT
#define APPLY s = s < 0.0f ? 0.0f : s;                         // keeps NaN, as torch does
#else
#define APPLY
#endif
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void conv_panel(__global const float *x, const uint x_at, __global const float *w, const uint w_at,
                __global float *y, const uint y_at,
#if BIAS
                __global const float *bias, const uint bias_at,
#endif
                const int N, const int GROUPS, const int INNER, const int OUTER,
                const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                const int KH, const int KW, const int IN_STEP_H, const int IN_STEP_W,
                const int OUT_STEP_H, const int OUT_STEP_W, const int PAD_H, const int PAD_W,
                const int DIL_H, const int DIL_W) {
    const int GH = (OUT_H + OUT_STEP_H - 1) / OUT_STEP_H, GW = (OUT_W + OUT_STEP_W - 1) / OUT_STEP_W;
    const int pixels = N * GH * GW, tile = get_global_id(0) * R;
    const size_t panels = (OUTER + W - 1) / W, panel = get_global_id(1), first = panel * W;
    if (tile >= pixels || panel >= panels) return;  // the last groups may hang over the edge
    const size_t group = get_global_id(2) % GROUPS;
    const int at_class = get_global_id(2) / GROUPS;
    const int class_h = at_class / OUT_STEP_W, class_w = at_class % OUT_STEP_W;
    const size_t plane = (size_t)IN_H * IN_W, size = (size_t)OUT_H * OUT_W;
    const size_t used = min((size_t)W, OUTER - first), tap = (size_t)INNER * W;
    __global const float *zero = w + w_at + GROUPS * panels * KH * KW * tap;
    __global const float *b = w + w_at + (group * panels + panel) * KH * KW * tap;
    EACH_ROW(R, PIXEL)
    for (int kh = 0; kh < KH; ++kh) {
        const int from_h = class_h - PAD_H + kh * DIL_H, off_h = from_h / OUT_STEP_H;
        for (int kw = 0; kw < KW; ++kw) {
            const int from_w = class_w - PAD_W + kw * DIL_W, off_w = from_w / OUT_STEP_W;
            if (off_h * OUT_STEP_H != from_h || off_w * OUT_STEP_W != from_w) {
                b += tap;                           // no pixel of this class sees the tap
                continue;
            }
            EACH_ROW(R, POINT)
            for (int c = 0; c < INNER; ++c, b += W) {
                EACH_COL(NV, LOAD, 0)
                EACH_ROW(R, MULTIPLY)
            }
        }
    }
    float lanes[R * W];
    EACH_ROW(R, PLACE)
    for (size_t l = 0; l < used; ++l) { EACH_ROW(R, STORE) }    // neighbouring pixels in one go
}

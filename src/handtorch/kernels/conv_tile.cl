// conv_tile: y[n][u][m] = f(sum over taps t and channels c of w[m][c][t] x[n][source(u, t)][c])
//   source = (u / OUT_STEP) IN_STEP + (u % OUT_STEP - PAD + k DIL) / OUT_STEP on each axis, nothing if
//   that is no whole number or lies outside x. A convolution: IN_STEP = stride, OUT_STEP = 1. Its
//   gradient for x: IN_STEP = 1, OUT_STEP = stride, PAD and DIL negative.
//   f(s) = s, then + bias[m] if BIAS, + more[n][u][m] if MORE, then max(s, 0) if ACT, then 0 where
//   mask[n][u][m] <= 0 if MASK.
//   With DOT each sum over c is a dot product of vectors of V, NV channels m an item; V divides INNER.
// x f32 [N][IN_H][IN_W][DEEP]: a tap is a run of INNER, which may go on into the next pixels.
// y, more, mask f32 [N][OUT_H][OUT_W][GROUPS OUTER]; y may overlap no operand; bias f32 [GROUPS OUTER].
// zeros f32 [INNER]: what lies in the padding; anything if nothing does.
// w f32 [KH KW][INNER][GROUPS OUTER] with W = NV V <= OUTER, the last panel being moved left until
// it ends at OUTER; DOT: [KH KW][OUTER][GROUPS INNER] and W = NV; PB: panels of conv_pack
// [GROUPS][panels][KH KW][INNER][W], the last one filled up.
// Item = R pixels of one class (u % OUT_STEP) x W = NV V channels, in registers; pixels run across
// rows and images. IMAGES_FIRST: the same pixel of all images, then the next pixel; a tile mostly has
// one place then, and a tap that looks outside from there is left out.  Local memory: none.  Work-group: WGX pixel tiles x WGY panels; 1 x 1 on a CPU.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define DOT 0
#define PB 0
#define IMAGES_FIRST 0
#define BIAS 0
#define MORE 0
#define ACT 0
#define MASK 0
#define WGX 1
#define WGY 1
#endif
#if DOT
#define W NV
#else
#define W (NV * V)
#endif
#define FLOATS VEC(float, V)
#define LINE 16                        // floats of a cache line
#if IMAGES_FIRST
#define PLACE(q) ((q) / N)
#define IMAGE(q) ((q) % N)
#else
#define PLACE(q) ((q) % (GW * GH))
#define IMAGE(q) ((q) / (GW * GH))
#endif
#define PIXEL(r) \
    const int q##r = min(tile + r, pixels - 1), i##r = PLACE(q##r) / GW, j##r = PLACE(q##r) % GW; \
    const size_t n##r = IMAGE(q##r); \
    EACH_COL(NV, ZERO, r)
#define ZERO(r, v) FLOATS c##r##_##v = 0.0f;
#define POINT(r) \
    const int h##r = i##r * IN_STEP_H + off_h, v##r = j##r * IN_STEP_W + off_w; \
    const bool in##r = h##r >= 0 && h##r < IN_H && v##r >= 0 && v##r < IN_W; \
    __global const float *p##r = \
        in##r ? from + ((n##r * IN_H + h##r) * IN_W + v##r) * deep : zeros + zeros_at;
#define SEEN(r) || in##r
#if DOT
#define LOAD(r, v) const FLOATS w##v = LOAD_V(0, b + v * deep + c);
#define MULTIPLY(r) { const FLOATS a = LOAD_V(0, p##r + c); EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#else
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b + c * wide);
#define MULTIPLY(r) { const FLOATS a = p##r[c]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#endif
#define ONE { EACH_COL(NV, LOAD, 0) EACH_ROW(R, MULTIPLY) }
// `then` for a pixel that is stored, at y[place].
#define STORED(r, then) { \
    const int y##r = i##r * OUT_STEP_H + class_h, z##r = j##r * OUT_STEP_W + class_w; \
    if (tile + r < pixels && y##r < OUT_H && z##r < OUT_W) { \
        const size_t place = ((n##r * OUT_H + y##r) * OUT_W + z##r) * GROUPS * OUTER + channel; \
        then } }
#define STORE_ROW(r) STORED(r, __global float *to = y + y_at + place; SUMS(r) EACH_COL(NV, STORE, r))
#define ASK_ROW(r) STORED(r, for (size_t l = skip; l < used; l += LINE) { STORE_AHEAD(place + l) })
#if DOT && NV == 4
#define SUMS(r) const float4 t##r = HT_CAT(FOUR_SUMS, V)(c##r##_0, c##r##_1, c##r##_2, c##r##_3);
#define SUM(r, v) t##r.s##v
#elif DOT
#define SUMS(r)
#define SUM(r, v) HT_CAT(LANE_SUM, V)(c##r##_##v)
#else
#define SUMS(r)
#endif
#if DOT
#define STORE(r, v) if (v >= skip && v < used) { \
        float s = SUM(r, v); \
        EPILOGUE(float, vload1, channel + v, place + v) \
        to[v] = s; \
    }
#else
#define STORE(r, v) if (v * V >= skip && (v + 1) * V <= used) { \
        FLOATS s = c##r##_##v; \
        EPILOGUE(FLOATS, LOAD_V, channel + v * V, place + v * V) \
        STORE_V(s, v, to); \
    } else if ((v + 1) * V > skip && v * V < used) { \
        float lanes[V]; \
        STORE_V(c##r##_##v, 0, lanes); \
        for (size_t l = max((size_t)v * V, skip); l < min((size_t)(v + 1) * V, used); ++l) { \
            float s = lanes[l - v * V]; \
            EPILOGUE(float, vload1, channel + l, place + l) \
            to[l] = s; \
        } \
    }
#endif
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void conv_tile(__global const float *x, const uint x_at, __global const float *w, const uint w_at,
               __global const float *zeros, const uint zeros_at, __global float *y, const uint y_at,
               EPILOGUE_GIVEN
               const int N, const int GROUPS, const int INNER, const int OUTER,
               const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
               const int KH, const int KW, const int DEEP, const int IN_STEP_H, const int IN_STEP_W,
               const int OUT_STEP_H, const int OUT_STEP_W, const int PAD_H, const int PAD_W,
               const int DIL_H, const int DIL_W) {
    const int GH = (OUT_H + OUT_STEP_H - 1) / OUT_STEP_H, GW = (OUT_W + OUT_STEP_W - 1) / OUT_STEP_W;
    const int pixels = N * GH * GW, tile = get_global_id(0) * R;
    const size_t panels = (OUTER + W - 1) / W, panel = get_global_id(1), own = panel * W;
    if (tile >= pixels || panel >= panels) return;  // the last groups may hang over the edge
    const size_t group = get_global_id(2) % GROUPS, deep = DEEP;
    const int at_class = get_global_id(2) / GROUPS;
    const int class_h = at_class / OUT_STEP_W, class_w = at_class % OUT_STEP_W;
#if PB
    const size_t wide = W, first = own;
    __global const float *weights = w + w_at + (group * panels + panel) * KH * KW * INNER * W;
#else
    const size_t wide = (size_t)GROUPS * OUTER, first = min(own, (size_t)OUTER - W);
    __global const float *weights = w + w_at + (DOT ? first * deep + group * INNER : group * OUTER + first);
#endif
    const size_t channel = group * OUTER + first;
    const size_t skip = own - first, used = min((size_t)W, OUTER - first);
    const size_t tap = DOT ? OUTER * deep : INNER * wide;
    __global const float *from = x + x_at + group * INNER;
    EACH_ROW(R, PIXEL)
#if HT_CORE
    EACH_ROW(R, ASK_ROW)               // while the sums are made it comes
#endif
    for (int kh = 0; kh < KH; ++kh) {
        const int from_h = class_h - PAD_H + kh * DIL_H, off_h = from_h / OUT_STEP_H;
        for (int kw = 0; kw < KW; ++kw) {
            const int from_w = class_w - PAD_W + kw * DIL_W, off_w = from_w / OUT_STEP_W;
            if (off_h * OUT_STEP_H != from_h || off_w * OUT_STEP_W != from_w) continue;
            EACH_ROW(R, POINT)
#if IMAGES_FIRST
            if (!(0 EACH_ROW(R, SEEN))) continue;
#endif
            __global const float *b = weights + (kh * KW + kw) * tap;
#if DOT
            for (int c = 0; c < INNER; c += V) ONE
#else
            int c = 0;
            for (; c + 1 < INNER; ++c) { ONE ++c; ONE }
            if (c < INNER) ONE
#endif
        }
    }
    EACH_ROW(R, STORE_ROW)
}

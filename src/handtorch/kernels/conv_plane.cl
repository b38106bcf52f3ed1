// conv_plane: what conv_panel computes (see there), for few channels a group, depthwise above all.
// w f32: tap t from inner channel c to outer channel m of a group at w[group SG + m SM + c SI + t];
// x, y, bias as in conv_panel.  y may overlap no other operand.
// Item = one row of one class of pixels of one plane of y, V neighbours at a time where their sources
// lie one or two apart; what a vector reads beside its row is cut off again, and never lies outside x.
// Local memory: none.  Work-group: 1.  V: 4, 8 or 16.
#ifndef V
#define V 4
#define BIAS 0
#define ACT 0
#endif
#define LOAD_V HT_CAT(vl, HT_CAT(oad, V))
#define STORE_V HT_CAT(vs, HT_CAT(tore, V))
#define FLOATS VEC(float, V)
// Every second element; lane by lane, because Oclgrind crashes on swizzles of wide vectors.
#define HALF(p) (p)[0], (p)[2], (p)[4], (p)[6]
#if V == 16
#define COUNTED (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define EVEN_V(p) (float16)(HALF(p), HALF((p) + 8), HALF((p) + 16), HALF((p) + 24))
#elif V == 8
#define COUNTED (int8)(0, 1, 2, 3, 4, 5, 6, 7)
#define EVEN_V(p) (float8)(HALF(p), HALF((p) + 8))
#else
#define COUNTED (int4)(0, 1, 2, 3)
#define EVEN_V(p) (float4)(HALF(p))
#endif
// A division takes as long as ten products.
#define DIVIDED(n, by) ((by) == 1 ? (n) : (n) / (by))
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_plane(__global const float *x, const uint x_at, __global const float *w, const uint w_at,
                __global float *y, const uint y_at,
#if BIAS
                __global const float *bias, const uint bias_at,
#endif
                const int N, const int GROUPS, const int INNER, const int OUTER,
                const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                const int KH, const int KW, const int IN_STEP_H, const int IN_STEP_W,
                const int OUT_STEP_H, const int OUT_STEP_W, const int PAD_H, const int PAD_W,
                const int DIL_H, const int DIL_W, const int SG, const int SM, const int SI) {
    const size_t plane = (size_t)IN_H * IN_W, total = plane * GROUPS * INNER * N;
    const size_t m = get_global_id(1) % (GROUPS * OUTER), n = get_global_id(1) / (GROUPS * OUTER);
    const size_t group = m / OUTER;
    const int at_class = get_global_id(2), i = get_global_id(0);
    const int class_h = at_class / OUT_STEP_W, class_w = at_class % OUT_STEP_W;
    const int oh = i * OUT_STEP_H + class_h, GW = (OUT_W - class_w + OUT_STEP_W - 1) / OUT_STEP_W;
    if (oh >= OUT_H) return;                        // this class has a row less
    __global const float *weights = w + w_at + group * SG + m % OUTER * SM;
    __global float *to = y + y_at + (get_global_id(1) * OUT_H + oh) * OUT_W + class_w;
    const long image = (long)(n * GROUPS + group) * INNER * plane;
    const int end_0 = DIVIDED(class_w - PAD_W, OUT_STEP_W);
    const int end_1 = DIVIDED(class_w - PAD_W + (KW - 1) * DIL_W, OUT_STEP_W);
    const long low = image + min(end_0, end_1) - 1, high = image + (long)INNER * plane - IN_W
        + max(end_0, end_1) + 1 + V * IN_STEP_W;
    for (int j = 0; j < GW; j += V) {
        FLOATS sum = 0.0f;
        const int near = IN_STEP_W <= 2 && low + j * IN_STEP_W >= 0
                         && high + j * IN_STEP_W <= (long)total;
        float lanes[V];
        for (int l = 0; l < V; ++l) lanes[l] = 0.0f;
        for (int kh = 0; kh < KH; ++kh) {
            const int from_h = class_h - PAD_H + kh * DIL_H, off_h = DIVIDED(from_h, OUT_STEP_H);
            const int h = i * IN_STEP_H + off_h;
            if (off_h * OUT_STEP_H != from_h || h < 0 || h >= IN_H) continue;
            for (int kw = 0; kw < KW; ++kw) {
                const int from_w = class_w - PAD_W + kw * DIL_W, off_w = DIVIDED(from_w, OUT_STEP_W);
                const int left = j * IN_STEP_W + off_w;
                if (off_w * OUT_STEP_W != from_w) continue;
                __global const float *p = x + x_at + (image + (long)h * IN_W + left);
                __global const float *tap = weights + kh * KW + kw;
                if (near) {
                    const VEC(int, V) seen = COUNTED * IN_STEP_W + left, in = seen >= 0 && seen < IN_W;
                    for (int c = 0; c < INNER; ++c, p += plane, tap += SI) {
                        const FLOATS a = IN_STEP_W == 1 ? LOAD_V(0, p) : EVEN_V(p);
                        sum = fma(select((FLOATS)0.0f, a, in), (FLOATS)*tap, sum);
                    }
                } else {
                    for (int c = 0; c < INNER; ++c, p += plane, tap += SI)
                        for (int l = 0; l < V; ++l) {
                            const int v = left + l * IN_STEP_W;
                            if (v >= 0 && v < IN_W) lanes[l] = fma(p[l * IN_STEP_W], *tap, lanes[l]);
                        }
                }
            }
        }
        if (!near) sum = LOAD_V(0, lanes);
#if BIAS
        sum += bias[bias_at + m];
#endif
#if ACT
        sum = select(sum, (FLOATS)0.0f, sum < 0.0f);           // keeps NaN, as torch does
#endif
        if (OUT_STEP_W == 1 && j + V <= GW) {
            STORE_V(sum, 0, to + j);
        } else {
            STORE_V(sum, 0, lanes);
            for (int l = 0; l < V && j + l < GW; ++l) to[(size_t)(j + l) * OUT_STEP_W] = lanes[l];
        }
    }
}

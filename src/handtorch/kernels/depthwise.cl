// depthwise: y[n][u][c] = f(sum over taps t of w[t][c] x[n][source(u, t)][c]): each channel sees itself
//   source = (u / STEP) IN_STEP + (u % STEP - PAD + k DIL) / STEP on each axis, nothing if that is no
//   whole number or lies outside x. A convolution: IN_STEP = stride, STEP = 1. Its gradient for x:
//   IN_STEP = 1, STEP = stride, PAD and DIL negative.
//   f(s) = s, then + bias[c] if BIAS, + more[n][u][c] if MORE, then max(s, 0) if ACT, then 0 where
//   mask[n][u][c] <= 0 if MASK.
// x f32 [N][IN_H][IN_W][C], w f32 [KH KW][C], bias f32 [C]; y, more, mask f32 [N][OUT_H][OUT_W][C];
// y may overlap no operand.  V <= C.
// A place is R pixels of one row of a class (u % STEP), for V channels in registers at a time.  Item =
// PLACES places x VECTORS vectors of channels, of one class; the last of them has what is left, whose last
// vector is moved left until it ends at C.  Local memory: none.  Work-group: 1.
#ifndef R
#define R 8
#define V 4
#define STEP_H 1
#define STEP_W 1
#define BIAS 0
#define MORE 0
#define ACT 0
#define MASK 0
#endif
#define FLOATS VEC(float, V)
#define ZERO(r) FLOATS s##r = 0.0f;
#define ADD(r) s##r = fma(LOAD_V(0, from + at + r * in_step), tap, s##r);
#define ADD_INSIDE(r) if (left + r * IN_STEP_W >= 0 && left + r * IN_STEP_W < IN_W) { ADD(r) }
#define STORE(r) if (r < used) { \
        const size_t at##r = to + r * STEP_W * deep + c; \
        FLOATS s = s##r; \
        EPILOGUE(FLOATS, LOAD_V, c, at##r) \
        STORE_V(s, 0, y + y_at + at##r); \
    }
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise(__global const float *x, const uint x_at, __global const float *w, const uint w_at,
               __global float *y, const uint y_at,
               EPILOGUE_GIVEN
               const int N, const int C, const int IN_H, const int IN_W, const int OUT_H,
               const int OUT_W, const int KH, const int KW, const int IN_STEP_H, const int IN_STEP_W,
               const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W, const int PLACES,
               const int VECTORS) {
    const int class_h = get_global_id(2) / STEP_W, class_w = get_global_id(2) % STEP_W;
    const int rows = (OUT_H - class_h + STEP_H - 1) / STEP_H;
    const int columns = (OUT_W - class_w + STEP_W - 1) / STEP_W, tiles = (columns + R - 1) / R;
    const long deep = C, in_step = IN_STEP_W * deep;
    const int begin = get_global_id(1) * VECTORS * V;
    const int end = (int)(get_global_id(1) + 1) * VECTORS < C / V ? begin + VECTORS * V : C;
    const int first = get_global_id(0) * PLACES, last = min(first + PLACES, N * rows * tiles);
    for (int place = first; place < last; ++place) {
        const int row = place / tiles, j = place % tiles * R, i = row % rows, used = columns - j;
        const long n = row / rows;
        __global const float *from = x + x_at;
        const size_t to = ((n * OUT_H + i * STEP_H + class_h) * OUT_W + j * STEP_W + class_w) * deep;
        for (int at_c = begin; at_c < end; at_c += V) {
            const int c = min(at_c, end - V);
            EACH_ROW(R, ZERO)
            for (int kh = 0; kh < KH; ++kh) {
                const int from_h = class_h - PAD_H + kh * DIL_H, h = i * IN_STEP_H + from_h / STEP_H;
                if (from_h % STEP_H != 0 || h < 0 || h >= IN_H) continue;
                for (int kw = 0; kw < KW; ++kw) {
                    const int from_w = class_w - PAD_W + kw * DIL_W;
                    const int left = j * IN_STEP_W + from_w / STEP_W;
                    if (from_w % STEP_W != 0) continue;
                    const FLOATS tap = LOAD_V(0, w + w_at + (kh * KW + kw) * deep + c);
                    const long at = ((n * IN_H + h) * IN_W + left) * deep + c;    // may be in front
                    if (left >= 0 && left + (R - 1) * IN_STEP_W < IN_W) {
                        EACH_ROW(R, ADD)
                    } else {
                        EACH_ROW(R, ADD_INSIDE)
                    }
                }
            }
            EACH_ROW(R, STORE)
        }
    }
}

// depthwise_weight: part[s][t][c] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][oh][ow][c] x[n][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw DIL_W][c]
// x f32 [N][IN_H][IN_W][C], dy f32 [N][OUT_H][OUT_W][C], part f32 [chunks][KH KW][C]; part may overlap
// no other operand.  V must divide C.
// Item = V channels, one tap, one chunk of ROWS rows.  Local memory: none.  Work-group: 1.
#ifndef V
#define V 4
#endif
#define LOAD_V HT_CAT(vl, HT_CAT(oad, V))
#define STORE_V HT_CAT(vs, HT_CAT(tore, V))
#define FLOATS VEC(float, V)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void depthwise_weight(__global const float *dy, const uint dy_at,
                      __global const float *x, const uint x_at,
                      __global float *part, const uint part_at, const int N, const int C,
                      const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                      const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
                      const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W,
                      const int ROWS) {
    const size_t taps = (size_t)KH * KW, first = get_global_id(0) * V, tap = get_global_id(1);
    const size_t chunk = get_global_id(2), deep = C;
    const int off_h = (int)(tap / KW) * DIL_H - PAD_H, off_w = (int)(tap % KW) * DIL_W - PAD_W;
    const int low = max((-off_w + STRIDE_W - 1) / STRIDE_W, 0);
    const int high = min(IN_W <= off_w ? 0 : (IN_W - 1 - off_w) / STRIDE_W + 1, OUT_W);
    const int last = min((int)(chunk + 1) * ROWS, N * OUT_H);
    FLOATS sum = 0.0f;
    for (int row = chunk * ROWS; row < last; ++row) {
        const int h = row % OUT_H * STRIDE_H + off_h;
        if (h < 0 || h >= IN_H) continue;
        const size_t line = (size_t)(row / OUT_H) * IN_H + h;
        __global const float *b = dy + dy_at + ((size_t)row * OUT_W + low) * deep + first;
        // In whole numbers, since a tap may point in front of the row where no pixel sees it.
        long at = ((long)line * IN_W + (long)low * STRIDE_W + off_w) * (long)deep;
        for (int ow = low; ow < high; ++ow, b += deep, at += STRIDE_W * (long)deep)
            sum = fma(LOAD_V(0, b), LOAD_V(0, x + x_at + at + first), sum);
    }
    STORE_V(sum, 0, part + part_at + (chunk * taps + tap) * deep + first);
}

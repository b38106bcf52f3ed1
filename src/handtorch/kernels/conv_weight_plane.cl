// conv_weight_plane: what conv_weight_panel computes (see there), for few channels a group.
// x, part as there; dy f32 [N][GROUPS OUTER][OUT_H][OUT_W].  part may overlap no other operand.
// Item = one weight and one chunk of ROWS rows, V neighbours at a time.  Local memory: none.
// Work-group: 1.
#ifndef V
#define V 4
#endif
#define LOAD_V HT_CAT(vl, HT_CAT(oad, V))
#define STORE_V HT_CAT(vs, HT_CAT(tore, V))
#define FLOATS VEC(float, V)
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_weight_plane(__global const float *dy, const uint dy_at,
                       __global const float *x, const uint x_at,
                       __global float *part, const uint part_at,
                       const int N, const int GROUPS, const int INNER, const int OUTER,
                       const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                       const int KH, const int KW, const int STRIDE_H, const int STRIDE_W,
                       const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W,
                       const int ROWS) {
    const size_t weight = get_global_id(0), chunk = get_global_id(1);
    const int tap = weight % (KH * KW);
    const size_t channel = weight / (KH * KW) % INNER, o = weight / (KH * KW) / INNER;
    const size_t source = o / OUTER * INNER + channel;
    const int off_h = tap / KW * DIL_H - PAD_H, off_w = tap % KW * DIL_W - PAD_W;
    const int low = max((-off_w + STRIDE_W - 1) / STRIDE_W, 0);
    const int high = min(IN_W <= off_w ? 0 : (IN_W - 1 - off_w) / STRIDE_W + 1, OUT_W);
    const int last = min((int)(chunk + 1) * ROWS, N * OUT_H);
    FLOATS sums = 0.0f;
    float sum = 0.0f, lanes[V];
    for (int row = chunk * ROWS; row < last; ++row) {
        const int n = row / OUT_H, h = row % OUT_H * STRIDE_H + off_h;
        if (h < 0 || h >= IN_H) continue;
        __global const float *a = x + x_at
            + (((size_t)n * GROUPS * INNER + source) * IN_H + h) * IN_W + off_w;
        __global const float *b = dy + dy_at
            + (((size_t)n * GROUPS * OUTER + o) * OUT_H + row % OUT_H) * OUT_W;
        int ow = low;
        for (; ow + V <= high; ow += V) {
            if (STRIDE_W == 1) {
                sums = fma(LOAD_V(0, a + ow), LOAD_V(0, b + ow), sums);
            } else {
                for (int l = 0; l < V; ++l) lanes[l] = a[(long)(ow + l) * STRIDE_W];
                sums = fma(LOAD_V(0, lanes), LOAD_V(0, b + ow), sums);
            }
        }
        for (; ow < high; ++ow) sum = fma(a[(long)ow * STRIDE_W], b[ow], sum);
    }
    STORE_V(sums, 0, lanes);
    for (int l = 0; l < V; ++l) sum += lanes[l];
    part[part_at + chunk * get_global_size(0) + weight] = sum;
}

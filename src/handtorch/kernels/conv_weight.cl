// conv_weight: part[s][t][c][o] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][oh][ow][o] x[n][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw DIL_W][c]
// x f32 [N][IN_H][IN_W][DEEP]: a tap is a run of INNER, which may go on into the next pixels.
// dy f32 [N][OUT_H][OUT_W][GROUPS OUTER], part f32 [chunks][KH KW][INNER][GROUPS OUTER]; part may
// overlap no other operand.  W = NV V must be <= OUTER,
// and R <= the last block of channels unless FEW.
// Item = BLOCK channels of x x W channels of dy, one tap, one chunk of ROWS rows. It goes through its
// rows SOME at a time, which stay in the cache, and for these through its channels, R at a time in
// registers; what was summed before waits in part. With SOME < ROWS, W must divide OUTER.
// What lies in the padding is never visited. The last tile of a block or row is moved left until it
// ends there, and stores what no other owns.  Local memory: none.  Work-group: WGX x WGY; 1 x 1 on a CPU.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define FEW 0
#define WGX 1
#define WGY 1
#endif
#define W (NV * V)
#define FLOATS VEC(float, V)
#if FEW
#define AT(r) k##r
#define COUNT(r) const size_t k##r = min((size_t)r, end - 1 - channel);
#else
#define AT(r) r
#define COUNT(r)
#endif
#define START(r) COUNT(r) EACH_COL(NV, BEGIN, r)
#define BEGIN(r, v) FLOATS c##r##_##v = from == start ? (FLOATS)0.0f : LOAD_V(v, to + AT(r) * wide);
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b);
#define MULTIPLY(r) { const FLOATS a = p[AT(r)]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#define ONE { EACH_COL(NV, LOAD, 0) EACH_ROW(R, MULTIPLY) b += wide; p += across; }
#define STORE_ROW(r) if (channel + r >= mine && channel + r < end) { \
        if (own == first) { EACH_COL(NV, STORE, r) } \
        else { \
            float lanes[W]; \
            EACH_COL(NV, KEEP, r) \
            for (size_t l = own - first; l < W; ++l) to[r * wide + l] = lanes[l]; \
        } }
#define STORE(r, v) STORE_V(c##r##_##v, v, to + r * wide);
#define KEEP(r, v) STORE_V(c##r##_##v, v, lanes);
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void conv_weight(__global const float *dy, const uint dy_at, __global const float *x, const uint x_at,
                 __global float *part, const uint part_at,
                 const int N, const int GROUPS, const int INNER, const int OUTER,
                 const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                 const int KH, const int KW, const int DEEP, const int STRIDE_H, const int STRIDE_W,
                 const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W,
                 const int ROWS, const int SOME, const int BLOCK) {
    const size_t taps = (size_t)KH * KW, panels = (OUTER + W - 1) / W, inner = INNER;
    const size_t begin = get_global_id(0) / taps * BLOCK, tap = get_global_id(0) % taps;
    const size_t group = get_global_id(1) / panels, own = get_global_id(1) % panels * W;
    if (begin >= inner || group >= (size_t)GROUPS) return;              // groups may hang over
    const size_t end = min(begin + BLOCK, inner), first = min(own, (size_t)OUTER - W);
    const size_t wide = (size_t)GROUPS * OUTER, deep = DEEP;
    const size_t across = STRIDE_W * deep, chunk = get_global_id(2);
    const int off_h = (int)(tap / KW) * DIL_H - PAD_H, off_w = (int)(tap % KW) * DIL_W - PAD_W;
    const int low = max((-off_w + STRIDE_W - 1) / STRIDE_W, 0);
    const int high = min(IN_W <= off_w ? 0 : (IN_W - 1 - off_w) / STRIDE_W + 1, OUT_W);
    const int start = chunk * ROWS, last = min(start + ROWS, N * OUT_H);
    __global const float *dys = dy + dy_at + group * OUTER + first;
    __global const float *xs = x + x_at + group * INNER;
    __global float *sums = part + part_at + (chunk * taps + tap) * inner * wide + group * OUTER + first;
    for (int from = start; from < last; from += SOME)
        for (size_t mine = begin; mine < end; mine += R) {
            const size_t channel = FEW ? mine : min(mine, end - R);
            __global float *to = sums + channel * wide;
            EACH_ROW(R, START)
            for (int row = from; row < min(from + SOME, last); ++row) {
                const int h = row % OUT_H * STRIDE_H + off_h;
                if (h < 0 || h >= IN_H || low >= high) continue;
                const size_t line = (size_t)(row / OUT_H) * IN_H + h;
                __global const float *b = dys + ((size_t)row * OUT_W + low) * wide;
                __global const float *p = xs + (line * IN_W + low * STRIDE_W + off_w) * deep + channel;
                int left = high - low;
                for (; left >= 2; left -= 2) { ONE ONE }
                if (left) ONE
            }
            EACH_ROW(R, STORE_ROW)
        }
}

// conv_weight: part[s][t][c][o] = sum over rows n, oh of chunk s, over ow, of
//   dy[n][oh][ow][o] x[n][oh STRIDE_H - PAD_H + kh DIL_H][ow STRIDE_W - PAD_W + kw DIL_W][c]
// x f32 [N][IN_H][IN_W][DEEP]: a tap is a run of INNER, which may go on into the next pixels.
// dy f32 [N][OUT_H][OUT_W][GROUPS OUTER], part f32 [chunks][KH KW][INNER][GROUPS OUTER]; part may
// overlap no other operand.  W = NV V must be <= OUTER,
// and R <= the last block of channels unless FEW.
// Item = BLOCK channels of x x PANELS panels of W channels of dy, one tap, one chunk of ROWS rows. It
// goes through its rows SOME at a time, which stay in the cache, and for these through its channels, R
// at a time in registers; what was summed before waits in part.
// With PACKED what SOME rows hold is copied first, so that it lies side by side: pixels are so far
// apart, by a power of two at that, that few of them fit into a cache together. Then SOME OUT_W <=
// PIXELS, PANELS W <= COLUMNS (one of them may be wider); else PANELS is 1, and with SOME < ROWS W must
// divide OUTER. Each sum has the same order either way.
// What lies in the padding is never visited. The last tile of a block or row is moved left until it
// ends there, and stores what no other owns (nor reads back what another item does).
// Local memory: none.  Work-group: WGX x WGY; 1 x 1 on a CPU.
#ifndef R
#define R 4
#define NV 2
#define V 4
#define FEW 0
#define PACKED 0
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
#if PACKED
#define START(r) EACH_COL(NV, BEGIN, r) \
    if (from != start && own == first) { EACH_COL(NV, GO_ON, r) } \
    else if (from != start) { \
        float lanes[W]; \
        for (size_t l = 0; l < W; ++l) lanes[l] = l < own - first ? 0.0f : to[AT(r) * wide + l]; \
        EACH_COL(NV, FETCH, r) \
    }
#define BEGIN(r, v) FLOATS c##r##_##v = 0.0f;
#define GO_ON(r, v) c##r##_##v = LOAD_V(v, to + AT(r) * wide);
#define FETCH(r, v) c##r##_##v = LOAD_V(v, lanes);
#define EACH_PANEL for (size_t panel = leftmost; panel < min(leftmost + PANELS, panels); ++panel)
#else
#define START(r) EACH_COL(NV, BEGIN, r)
#define BEGIN(r, v) FLOATS c##r##_##v = from == start ? (FLOATS)0.0f : LOAD_V(v, to + AT(r) * wide);
#define EACH_PANEL const size_t panel = leftmost;
#endif
#define LOAD(r, v) const FLOATS w##v = LOAD_V(v, b);
#define MULTIPLY(r) { const FLOATS a = p[X_AT(r)]; EACH_COL(NV, ADD, r) }
#define ADD(r, v) c##r##_##v = fma(a, w##v, c##r##_##v);
#define ONE { EACH_COL(NV, LOAD, 0) EACH_ROW(R, MULTIPLY) b += B_STEP; p += X_STEP; }
#define PIXELS_LEFT(n) for (int left = n; left > 0; --left)
#define SUM(n) { int left = n; for (; left >= 2; left -= 2) { ONE ONE } if (left) ONE }
#define STORE_ROW(r) if (channel + r >= mine && channel + r < end) { \
        if (own == first) { EACH_COL(NV, STORE, r) } \
        else { \
            float lanes[W]; \
            EACH_COL(NV, KEEP, r) \
            for (size_t l = own - first; l < W; ++l) to[r * wide + l] = lanes[l]; \
        } }
#define STORE(r, v) STORE_V(c##r##_##v, v, to + r * wide);
#define KEEP(r, v) STORE_V(c##r##_##v, v, lanes);
#define EACH_LINE(BODY) \
    for (int row = from; row < min(from + SOME, last); ++row) { \
        const int h = row % OUT_H * STRIDE_H + off_h; \
        if (h < 0 || h >= IN_H || low >= high) continue; \
        BODY \
    }
#define AT_DY (((size_t)row * OUT_W + low) * wide)              // the line's first visited pixel
#define AT_X ((((size_t)(row / OUT_H) * IN_H + h) * IN_W + low * STRIDE_W + off_w) * deep)
#if PACKED
#define PIXELS 256
#define COLUMNS 128
#define B_STEP W
#define X_AT(r) r
#define X_STEP R
#define COPY_DY(r, v) STORE_V(LOAD_V(v, b), v, strip);
#define COPY_X(r) q[r] = p[AT(r)];
#else
#define B_STEP wide
#define X_AT(r) AT(r)
#define X_STEP across
#endif
__kernel __attribute__((reqd_work_group_size(WGX, WGY, 1)))
void conv_weight(__global const float *dy, const uint dy_at, __global const float *x, const uint x_at,
                 __global float *part, const uint part_at,
                 const int N, const int GROUPS, const int INNER, const int OUTER,
                 const int IN_H, const int IN_W, const int OUT_H, const int OUT_W,
                 const int KH, const int KW, const int DEEP, const int STRIDE_H, const int STRIDE_W,
                 const int PAD_H, const int PAD_W, const int DIL_H, const int DIL_W,
                 const int ROWS, const int SOME, const int BLOCK, const int PANELS) {
    const size_t taps = (size_t)KH * KW, panels = (OUTER + W - 1) / W, inner = INNER;
    const size_t runs = (panels + PANELS - 1) / PANELS;
    const size_t begin = get_global_id(0) / taps * BLOCK, tap = get_global_id(0) % taps;
    const size_t group = get_global_id(1) / runs, leftmost = get_global_id(1) % runs * PANELS;
    if (begin >= inner || group >= (size_t)GROUPS) return;              // groups may hang over
    const size_t end = min(begin + BLOCK, inner);
    const size_t wide = (size_t)GROUPS * OUTER, deep = DEEP;
    const size_t across = STRIDE_W * deep, chunk = get_global_id(2);
    const int off_h = (int)(tap / KW) * DIL_H - PAD_H, off_w = (int)(tap % KW) * DIL_W - PAD_W;
    const int low = max((-off_w + STRIDE_W - 1) / STRIDE_W, 0);
    const int high = min(IN_W <= off_w ? 0 : (IN_W - 1 - off_w) / STRIDE_W + 1, OUT_W);
    const int start = chunk * ROWS, last = min(start + ROWS, N * OUT_H);
    __global const float *dys = dy + dy_at + group * OUTER;
    __global const float *xs = x + x_at + group * INNER;
    __global float *sums = part + part_at + (chunk * taps + tap) * inner * wide + group * OUTER;
#if PACKED
    float strips[PIXELS * (COLUMNS > W ? COLUMNS : W)], lines[PIXELS * R];
#endif
    for (int from = start; from < last; from += SOME) {
#if PACKED
        int pixels = 0;
        EACH_PANEL {
            const size_t first = min(panel * W, (size_t)OUTER - W);
            float *strip = strips + (panel - leftmost) * PIXELS * W;
            pixels = 0;
            EACH_LINE(
                __global const float *b = dys + AT_DY + first;
                pixels += high - low;
                PIXELS_LEFT(high - low) { EACH_COL(NV, COPY_DY, 0) strip += W; b += wide; })
        }
#endif
        for (size_t mine = begin; mine < end; mine += R) {
            const size_t channel = FEW ? mine : min(mine, end - R);
            EACH_ROW(R, COUNT)
#if PACKED
            float *q = lines;
            EACH_LINE(
                __global const float *p = xs + AT_X + channel;
                PIXELS_LEFT(high - low) { EACH_ROW(R, COPY_X) q += R; p += across; })
#endif
            EACH_PANEL {
                const size_t own = panel * W, first = min(own, (size_t)OUTER - W);
                __global float *to = sums + first + channel * wide;
                EACH_ROW(R, START)
#if PACKED
                const float *b = strips + (panel - leftmost) * PIXELS * W, *p = lines;
                SUM(pixels)
#else
                EACH_LINE(
                    __global const float *b = dys + AT_DY + first;
                    __global const float *p = xs + AT_X + channel;
                    SUM(high - low))
#endif
                EACH_ROW(R, STORE_ROW)
            }
        }
    }
}

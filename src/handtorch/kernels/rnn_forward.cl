// rnn_forward: a recurrent layer over all time steps.
//   gx: the product of the inputs x with their weights W, plus bx: given, or with FED computed here
//   CELL 0, 1: h = tanh or ReLU of gx + U h
//   CELL 2 (GRU): r, z = sigmoid(gx + U h + bias); q = U h + bias; n = tanh(gx + r q); h = n + z (h - n)
//   CELL 3 (LSTM): i, f, o = sigmoid(gx + U h), g = tanh(gx + U h); c = f c + i g; h = o tanh(c)
// gx f32 [rows][GATES H] (gates i f g o; r z n), or with FED x f32 [rows][IN], bx f32 [GATES H] (if
// INPUT_BIAS); P = U of rnn_pack, with FED W and U; bias f32 [3 H] (GRU, if BIAS),
// h0, c0 f32 [BATCH][H] (if STATES; else zeros), y f32 [rows][H], hn, cn f32 [BATCH][H],
// cells f32 [rows][H] if SAVE, else [2][BATCH][H] in turns, gates f32 [rows][4 H] if SAVE: LSTM i f g o,
// GRU r z n q, all activated. Row of step s, sequence b: START + s STEP + b B_STEP, so a reversed
// direction is a negative STEP, and either of time and batch may come first.
// Item = blocks of V units of R sequences; steps S0 to S1. The last block is moved left until it ends at
// H and does some units again, and belongs to the item of the block before; sequences beyond BATCH repeat
// the last one. Both give the same numbers again, from the step before. V must be <= H. Aliasing: none.
// Local memory: none. WG: 1 x WG. Several groups may share a row only if S1 = S0 + 1.
#ifndef CELL
#define CELL 3
#define SAVE 1
#define STATES 1
#define BIAS 0
#define FED 0
#define INPUT_BIAS 0
#define R 2
#define V 4
#define WG 1
#endif
#if CELL == 3
#define GATES 4
#elif CELL == 2
#define GATES 3
#else
#define GATES 1
#endif
#define FLOATS VEC(float, V)
#define SIGMOID HT_CAT(rnn_forward, _sigmoid)
FLOATS SIGMOID(const FLOATS x);
FLOATS SIGMOID(const FLOATS x) {
    const FLOATS less = -WITHIN(x, 87.0f);
    POWERS(less)
    return 1.0f / (1.0f + fma(s_, q, s_));
}
#define TANH HT_CAT(rnn_forward, _tanh)
FLOATS TANH(const FLOATS x);
FLOATS TANH(const FLOATS x) {
    const FLOATS twice = 2.0f * WITHIN(x, 12.0f);                    // beyond, tanh is 1
    POWERS(twice)
    return fma(s_, q, s_ - 1.0f) / fma(s_, q, s_ + 1.0f);
}
#define ROW(r) const size_t b##r = min(get_global_id(0) * R + r, (size_t)BATCH - 1);
#define START_ROW(r) \
    const size_t n##r = now + b##r * B_STEP; \
    __global const float *p##r = y + (n##r - step) * h; \
    if (STATES && s == 0) p##r = H0 + b##r * h; \
    START_INPUT(r) \
    EACH_COL(GATES, START_GATE, r)
#if FED
#define START_INPUT(r) __global const float *x##r = x + x_at + n##r * IN; START_APART(r)
#define FEED(r) { const FLOATS in = x##r[k]; EACH_COL(GATES, ADD_INPUT, r) }
#define ADD_INPUT(r, g) INPUT(r, g) = fma(in, w##g, INPUT(r, g));
#define INPUT(r, g) HT_CAT(a##r##_, INPUT_##g)
#define INPUT_0 0
#define INPUT_1 1
#define INPUT_3 3
#if CELL == 2
#define INPUT_2 3                                // r stands between what x and h give to n
#define START_APART(r) FLOATS a##r##_3 = GX(r, 2);
#define INPUT_OF_N(r) a##r##_3
#else
#define INPUT_2 2
#define START_APART(r)
#endif
#else
#define START_INPUT(r)
#define INPUT_OF_N(r) GX(r, 2)
#endif
#if CELL == 2
#define START_GATE(r, g) FLOATS a##r##_##g = g < 2 ? GX(r, g) + BIAS_OF(g) : BIAS_OF(g);
#else
#define START_GATE(r, g) FLOATS a##r##_##g = GX(r, g);
#endif
#if !FED
#define GX(r, g) LOAD_V(0, gx + gx_at + n##r * GATES * h + g * h + u)
#elif INPUT_BIAS
#define GX(r, g) LOAD_V(0, bx + bx_at + g * h + u)
#else
#define GX(r, g) (FLOATS)0.0f
#endif
#if BIAS
#define BIAS_OF(g) LOAD_V(0, bias + bias_at + g * h + u)
#else
#define BIAS_OF(g) (FLOATS)0.0f
#endif
#if STATES
#define H0 (h0 + h0_at)
#define C0 (c0 + c0_at)
#else
#define H0 y
#define C0 cells
#endif
#define LOAD_W(r, g) const FLOATS w##g = LOAD_V(g, w);
#define MULTIPLY(r) { const FLOATS old_h = p##r[k]; EACH_COL(GATES, ADD, r) }
#define ADD(r, g) a##r##_##g = fma(old_h, w##g, a##r##_##g);
#if SAVE
#define CELLS(r, s_, n_) (cells + cells_at + (n_) * h + u)
#define SAVE_GATE(r, g, x) STORE_V(x, 0, gates + gates_at + (n##r * 4 + g) * h + u);
#else
#define CELLS(r, s_, n_) (cells + cells_at + (((s_) & 1) * BATCH + b##r) * h + u)
#define SAVE_GATE(r, g, x)
#endif
#if CELL == 3
#define FINISH(r) { \
        const FLOATS i_ = SIGMOID(a##r##_0), f_ = SIGMOID(a##r##_1); \
        const FLOATS g_ = TANH(a##r##_2), o_ = SIGMOID(a##r##_3); \
        FLOATS c_ = i_ * g_; \
        if (depth) c_ = fma(f_, LOAD_V(0, s ? CELLS(r, s - 1, n##r - step) : C0 + b##r * h + u), c_); \
        const FLOATS new = o_ * TANH(c_); \
        SAVE_GATE(r, 0, i_) SAVE_GATE(r, 1, f_) SAVE_GATE(r, 2, g_) SAVE_GATE(r, 3, o_) \
        STORE_V(c_, 0, CELLS(r, s, n##r)); \
        if (s == TIME - 1) STORE_V(c_, 0, cn + cn_at + b##r * h + u); \
        KEEP(r) }
#elif CELL == 2
#define FINISH(r) { \
        const FLOATS r_ = SIGMOID(a##r##_0), z_ = SIGMOID(a##r##_1); \
        const FLOATS n_ = TANH(fma(r_, a##r##_2, INPUT_OF_N(r))); \
        const FLOATS old = depth ? LOAD_V(0, p##r + u) : (FLOATS)0.0f; \
        const FLOATS new = fma(z_, old - n_, n_); \
        SAVE_GATE(r, 0, r_) SAVE_GATE(r, 1, z_) SAVE_GATE(r, 2, n_) SAVE_GATE(r, 3, a##r##_2) \
        KEEP(r) }
#elif CELL == 1
#define FINISH(r) { const FLOATS new = select(a##r##_0, (FLOATS)0.0f, a##r##_0 < 0.0f); KEEP(r) }
#else
#define FINISH(r) { const FLOATS new = TANH(a##r##_0); KEEP(r) }
#endif
#define KEEP(r) \
    STORE_V(new, 0, y + n##r * h + u); \
    if (s == TIME - 1) STORE_V(new, 0, hn + hn_at + b##r * h + u);
__kernel __attribute__((reqd_work_group_size(1, WG, 1)))
void rnn_forward(
#if FED
                 __global const float *x, const uint x_at,
#if INPUT_BIAS
                 __global const float *bx, const uint bx_at,
#endif
#else
                 __global const float *gx, const uint gx_at,
#endif
                 __global const float *P, const uint P_at,
#if BIAS && CELL == 2
                 __global const float *bias, const uint bias_at,
#endif
#if STATES
                 __global const float *h0, const uint h0_at,
#if CELL == 3
                 __global const float *c0, const uint c0_at,
#endif
#endif
                 __global float *y0, const uint y_at, __global float *hn, const uint hn_at,
#if CELL == 3
                 __global float *cn, const uint cn_at, __global float *cells, const uint cells_at,
#endif
#if SAVE && CELL >= 2
                 __global float *gates, const uint gates_at,
#endif
                 const int BATCH, const int H, const int TIME, const int S0, const int S1,
                 const int START, const int STEP, const int B_STEP, const int IN) {
    const size_t h = H, step = STEP;             // a negative STEP wraps around, and back when added
    __global float *y = y0 + y_at;
    const size_t whole = h / V, blocks = (h + V - 1) / V;
    EACH_ROW(R, ROW)
    for (int s = S0; s < S1; ++s) {
        const size_t now = START + s * step;
        const int depth = STATES || s ? H : 0;   // without a given state the first step has no U h
        for (size_t own = get_global_id(1); own < whole; own += get_global_size(1))
        for (size_t block = own; block < (own + 1 < whole ? own + 1 : blocks); ++block) {
            const size_t u = min(block * V, h - V);
            __global const float *w = P + P_at + block * (IN + h) * GATES * V;
            EACH_ROW(R, START_ROW)
#if FED
            for (int k = 0; k < IN; ++k, w += GATES * V) {
                EACH_COL(GATES, LOAD_W, 0)
                EACH_ROW(R, FEED)
            }
#endif
            for (int k = 0; k < depth; ++k, w += GATES * V) {
                EACH_COL(GATES, LOAD_W, 0)
                EACH_ROW(R, MULTIPLY)
            }
            EACH_ROW(R, FINISH)
        }
#if WG > 1
        barrier(CLK_GLOBAL_MEM_FENCE);           // the next step reads all of this one
#endif
    }
}

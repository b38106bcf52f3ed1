// rnn_backward: gradients of rnn_forward's gx, last step first.
//   dh = dy + (later steps: dg U, and for a GRU dh z); LSTM: dc = dc' f' + dh o (1 - tanh(c)^2)
//   dg: gradient of gx; for a GRU dq besides, the same for what U h + bias gave (dr, dz, dq)
//   before: h of the step before, row for row, so that the gradient of U is one product dg^T before
// P = U of rnn_pack with BACK; y, gates, cells, h0, c0 as rnn_forward left and got them;
// dy f32 [rows][H] if DY, dh, dc f32 [BATCH][H] if DH, DC: gradients given; carry f32 [2][BATCH][H] scratch
// (LSTM: dc f, GRU: dh z); dg, dq f32 [rows][GATES H], before f32 [rows][H], dh0, dc0 f32 [BATCH][H] if
// STATES. Row of the s-th step from the end: START + s STEP + b B_STEP. With STATES there is one step more,
// which makes dh0. An item may do N blocks side by side, which share what is loaded of dg: then N V must divide H;
// RN = R N. Items, blocks, edges, aliasing and WG as in rnn_forward. Local memory: none.
#ifndef CELL
#define CELL 3
#define STATES 1
#define DY 1
#define DH 1
#define DC 1
#define R 2
#define N 1
#define RN 2
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
#define ZERO (FLOATS)0.0f
#if CELL == 2
#define TO_U (dq + dq_at)
#else
#define TO_U (dg + dg_at)
#endif
#if STATES
#define H0(r) LOAD_V(0, h0 + h0_at + b##r * h + u)
#define C0(r) LOAD_V(0, c0 + c0_at + b##r * h + u)
#else
#define H0(r) ZERO
#define C0(r) ZERO
#endif
#if DY
#define GIVEN_Y(r) LOAD_V(0, dy + dy_at + n##r * h + u)
#else
#define GIVEN_Y(r) ZERO
#endif
#if DH
#define GIVEN_H(r) LOAD_V(0, dh + dh_at + b##r * h + u)
#else
#define GIVEN_H(r) ZERO
#endif
#if DC
#define GIVEN_C(r) LOAD_V(0, dc + dc_at + b##r * h + u)
#else
#define GIVEN_C(r) ZERO
#endif
#define CARRY(r, s_) (carry + carry_at + (((s_) & 1) * BATCH + b##r) * h + u)
#define ROW(r) const size_t b##r = min(get_global_id(0) * R + r / N, (size_t)BATCH - 1);
#define START_ROW(r) \
    const size_t n##r = now + b##r * B_STEP; \
    __global const float *d##r = TO_U + (n##r - step) * GATES * h; \
    EACH_COL(SUMS, START_SUM, r)
#define START_SUM(r, j) FLOATS a##r##_##j = ZERO;
#define MULTIPLY(_, g) EACH_ROW(RN, ADD_##g)
#define ADD_0(r) ADD(r, 0)
#define ADD_1(r) ADD(r, 1)
#define ADD_2(r) ADD(r, 2)
#define ADD_3(r) ADD(r, 3)
#define ADD(r, g) SUM_OF(r, g) = fma((FLOATS)d##r[g * h + k], LOAD_V(g, w + (r % N) * h * GATES * V), SUM_OF(r, g));
#define SUM_OF(r, g) HT_CAT(a##r##_, SUM_##g)
#define SUM_0 0
#if RN >= 8                                      // sums enough to keep a core busy: one for all gates
#define SUMS 1
#define SUM_2 0
#define SUM_3 0
#elif N == 2 && GATES == 4                       // two gates in a sum: AVX2 has registers for no more
#define SUMS 2
#define SUM_2 0
#define SUM_3 1
#else
#define SUMS GATES
#define SUM_2 2
#define SUM_3 3
#endif
#if SUMS > 1
#define SUM_1 1
#else
#define SUM_1 0
#endif
#define GATE(r, g) LOAD_V(0, gates + gates_at + (n##r * 4 + g) * h + u)
#define STORE_D(to, r, g, x) STORE_V(x, 0, to + to##_at + (n##r * GATES + g) * h + u);
#if CELL == 3
#if SUMS == 1
#define SUM(r) a##r##_0
#elif SUMS == 2
#define SUM(r) (a##r##_0 + a##r##_1)
#else
#define SUM(r) ((a##r##_0 + a##r##_1) + (a##r##_2 + a##r##_3))
#endif
#define CELL_GRAD(r) \
        const FLOATS i_ = GATE(r, 0), f_ = GATE(r, 1), g_ = GATE(r, 2), o_ = GATE(r, 3); \
        const FLOATS t_ = LOAD_V(0, y + y_at + n##r * h + u) / o_;       /* tanh(c): h is o tanh(c), o > 0 */ \
        const FLOATS old = last ? C0(r) : LOAD_V(0, cells + cells_at + (n##r + step) * h + u); \
        const FLOATS c_ = (s ? LOAD_V(0, CARRY(r, s - 1)) : GIVEN_C(r)) + e * o_ * fma(-t_, t_, 1.0f); \
        const FLOATS less = c_ * f_; \
        STORE_D(dg, r, 0, c_ * g_ * i_ * (1.0f - i_)) STORE_D(dg, r, 1, c_ * old * f_ * (1.0f - f_)) \
        STORE_D(dg, r, 2, c_ * i_ * fma(-g_, g_, 1.0f)) STORE_D(dg, r, 3, e * t_ * o_ * (1.0f - o_)) \
        STORE_V(less, 0, CARRY(r, s)); \
        STORE_C0(r)
#if STATES
#define STORE_C0(r) if (last) STORE_V(less, 0, dc0 + dc0_at + b##r * h + u);
#else
#define STORE_C0(r)
#endif
#elif CELL == 2
#if SUMS == 1
#define PRODUCT(r) a##r##_0
#else
#define PRODUCT(r) (a##r##_0 + a##r##_1 + a##r##_2)
#endif
#define SUM(r) ((s ? LOAD_V(0, CARRY(r, s - 1)) : ZERO) + PRODUCT(r))
#define CELL_GRAD(r) \
        const FLOATS r_ = GATE(r, 0), z_ = GATE(r, 1), n_ = GATE(r, 2), q_ = GATE(r, 3); \
        const FLOATS dn = e * (1.0f - z_) * fma(-n_, n_, 1.0f); \
        const FLOATS dr = dn * q_ * r_ * (1.0f - r_), dz = e * (was - n_) * z_ * (1.0f - z_); \
        STORE_D(dg, r, 0, dr) STORE_D(dg, r, 1, dz) STORE_D(dg, r, 2, dn) \
        STORE_D(dq, r, 0, dr) STORE_D(dq, r, 1, dz) STORE_D(dq, r, 2, dn * r_) \
        STORE_V(e * z_, 0, CARRY(r, s));
#else
#define SUM(r) a##r##_0
#define CELL_GRAD(r) \
        const FLOATS y_ = LOAD_V(0, y + y_at + n##r * h + u); \
        STORE_D(dg, r, 0, SLOPE)
#if CELL == 1
#define SLOPE select(e, ZERO, y_ <= 0.0f)
#else
#define SLOPE e * fma(-y_, y_, 1.0f)
#endif
#endif
#if STATES
#define STORE_H0(r) if (s == TIME) STORE_V(sum, 0, dh0 + dh0_at + b##r * h + u);
#else
#define STORE_H0(r)
#endif
#define FINISH(r) { \
    const size_t u = min((block * N + r % N) * V, h - V); \
    const FLOATS sum = s ? SUM(r) : GIVEN_H(r); \
    STORE_H0(r) \
    if (s < TIME) { \
        const FLOATS e = sum + GIVEN_Y(r); \
        const FLOATS was = last ? H0(r) : LOAD_V(0, y + y_at + (n##r + step) * h + u); \
        STORE_V(was, 0, before + before_at + n##r * h + u); \
        CELL_GRAD(r) \
    } }
__kernel __attribute__((reqd_work_group_size(1, WG, 1)))
void rnn_backward(__global const float *P, const uint P_at, __global const float *y, const uint y_at,
#if CELL >= 2
                  __global const float *gates, const uint gates_at,
#endif
#if CELL == 3
                  __global const float *cells, const uint cells_at,
#endif
#if STATES
                  __global const float *h0, const uint h0_at,
#if CELL == 3
                  __global const float *c0, const uint c0_at,
#endif
#endif
#if DY
                  __global const float *dy, const uint dy_at,
#endif
#if DH
                  __global const float *dh, const uint dh_at,
#endif
#if DC && CELL == 3
                  __global const float *dc, const uint dc_at,
#endif
#if CELL >= 2
                  __global float *carry, const uint carry_at,
#endif
                  __global float *dg, const uint dg_at,
#if CELL == 2
                  __global float *dq, const uint dq_at,
#endif
                  __global float *before, const uint before_at,
#if STATES
                  __global float *dh0, const uint dh0_at,
#if CELL == 3
                  __global float *dc0, const uint dc0_at,
#endif
#endif
                  const int BATCH, const int H, const int TIME, const int S0, const int S1,
                  const int START, const int STEP, const int B_STEP) {
    const size_t h = H, step = STEP;             // a negative STEP wraps around, and back when added
    const size_t whole = h / (N * V), blocks = (h + N * V - 1) / (N * V);
    EACH_ROW(RN, ROW)
    for (int s = S0; s < S1; ++s) {
        const size_t now = START + s * step;
        const int depth = s ? H : 0, last = s == TIME - 1;
        for (size_t own = get_global_id(1); own < whole; own += get_global_size(1))
        for (size_t block = own; block < (own + 1 < whole ? own + 1 : blocks); ++block) {
            __global const float *w = P + P_at + block * N * h * GATES * V;
            EACH_ROW(RN, START_ROW)
            for (int k = 0; k < depth; ++k, w += GATES * V) {
                EACH_COL(GATES, MULTIPLY, 0)
            }
            EACH_ROW(RN, FINISH)
        }
#if WG > 1
        barrier(CLK_GLOBAL_MEM_FENCE);           // the next step reads all of this one
#endif
    }
}

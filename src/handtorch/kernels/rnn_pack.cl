// rnn_pack: recurrent weights in the order the loops read them: P[block][k][gate][V]
//   forward: P[b][k][g][v] = U[g][u + v][k]     BACK: P[b][k][g][v] = U[g][k][u + v]
//   FED: the input weights W in front, P[b][k][g][v] = W[g][u + v][k] for k < IN, then U's from k = IN on
// U f32 [GATES][H][H], W f32 [GATES][H][IN], P f32 [ceil(H/V)][IN + H][GATES][V]; u = min(b V, H - V): the
// last block is moved left until it ends at H, as in the kernels that read it. Aliasing: none. V <= H.
// Item = RUN k of one block, of W or of U, the last ones of W and of U fewer. V = 16: tiles of 16 x 16 are
// turned in registers, so that every cache line is touched once; RUN is a multiple of 16, and a rest of
// fewer goes to the item before. Local memory: none. WG: GROUP x 1.
#ifndef GROUP
#define GROUP 16
#define GATES 4
#define V 4
#define BACK 0
#define FED 0
#endif
#define PLACE(i) __global const float *p##i = from + (g * h + u + i) * depth;
#define LOAD(i) const float16 a##i = vload16(0, p##i + k);
#define NEXT(i) AHEAD(p##i + next);
#define PUT(r) vstore16(c##r, 0, to + ((k + r) * GATES + g) * V);
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void rnn_pack(
#if FED
              __global const float *W, const uint W_at,
#endif
              __global const float *U, const uint U_at, __global float *P, const uint P_at,
              const int H, const int IN, const int RUN) {
    const size_t h = H, in = IN, run = RUN, item = get_global_id(0), block = get_global_id(1);
    const size_t u = min(block * V, h - V);
    __global float *to = P + P_at + block * (in + h) * GATES * V;
#if FED
    const size_t before = (in + run - 1) / run;        // items of W
    const int of_u = item >= before;
    __global const float *from = of_u ? U + U_at : W + W_at;
    const size_t depth = of_u ? h : in, first = (of_u ? item - before : item) * run;
    to += of_u ? in * GATES * V : 0;
#else
    __global const float *from = U + U_at;
    const size_t depth = h, first = item * run;
#endif
    if (first >= depth) return;                  // the last group may hang over the edge
#if V == 16
    if (first > 0 && first + 16 > depth) return;
    const size_t end = first + run + 16 > depth ? depth : first + run;
#else
    const size_t end = min(first + run, depth);
#endif
#if BACK
    for (size_t k = first; k < end; ++k)
        for (size_t g = 0; g < GATES; ++g) {
            __global const float *here = from + (g * h + k) * h + u;
            __global float *there = to + (k * GATES + g) * V;
#if V == 16
            AHEAD(here + 16 * h);
#endif
            STORE_V(LOAD_V(0, here), 0, there);
        }
#else
#if V == 16
    if (depth >= 16) {
        // The last tile is moved left until it ends with the row.
        for (size_t g = 0; g < GATES; ++g) {
            EACH_ROW(16, PLACE)
            for (size_t s = first; s < end; s += 16) {
                const size_t k = min(s, depth - 16), next = min(k + 32, depth - 16);
                EACH_ROW(16, LOAD)
                EACH_ROW(16, NEXT)
                TURN16(a, c)
                EACH_ROW(16, PUT)
            }
        }
        return;
    }
#endif
    for (size_t k = first; k < end; ++k)
        for (size_t g = 0; g < GATES; ++g)
            for (size_t v = 0; v < V; ++v)
                to[(k * GATES + g) * V + v] = from[(g * h + u + v) * depth + k];
#endif
}

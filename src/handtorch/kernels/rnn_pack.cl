// rnn_pack: recurrent weights in the order the loops read them: P[block][k][gate][V]
//   forward: P[b][k][g][v] = U[g][u + v][k]     BACK: P[b][k][g][v] = U[g][k][u + v]
//   FED: the input weights W in front, P[b][k][g][v] = W[g][u + v][k] for k < IN, then U's from k = IN on
// U f32 [GATES][H][H], W f32 [GATES][H][IN], P f32 [ceil(H/V)][IN + H][GATES][V]; u = min(b V, H - V): the
// last block is moved left until it ends at H, as in the kernels that read it. Aliasing: none. V <= H.
// Item = one k of one block. Local memory: none. WG: GROUP x 1.
#ifndef GROUP
#define GROUP 16
#define GATES 4
#define V 4
#define BACK 0
#define FED 0
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void rnn_pack(
#if FED
              __global const float *W, const uint W_at,
#endif
              __global const float *U, const uint U_at, __global float *P, const uint P_at,
              const int H, const int IN) {
    const size_t h = H, in = IN, row = get_global_id(0), block = get_global_id(1);
    if (row >= in + h) return;                   // the last group may hang over the edge
    const size_t u = min(block * V, h - V);
    __global float *to = P + P_at + (block * (in + h) + row) * GATES * V;
#if FED
    __global const float *from = row < in ? W + W_at + row : U + U_at + row - in;
    const size_t stride = row < in ? in : h;
#elif !BACK
    __global const float *from = U + U_at + row;
    const size_t stride = h;
#endif
    for (size_t g = 0; g < GATES; ++g)
        for (size_t v = 0; v < V; ++v) {
#if BACK
            to[g * V + v] = U[U_at + (g * h + row) * h + u + v];
#else
            to[g * V + v] = from[(g * h + u + v) * stride];
#endif
        }
}

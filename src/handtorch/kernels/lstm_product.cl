// lstm_product: one item, one output column: out[row][j] = start + sum over k of a[row][k] w[k][j]
// a f32 [.][K], from its row A_ROW on; w f32 [K][N]; out f32 [.][N], from its row OUT_ROW on, ROWS of them.
// START 0: start = bias f32 [N]; 1: what out holds, so that a second product is added to a first.
// RELU: negative results become 0. Aliasing: out overlaps nothing else. Local memory: none. WG: GROUP x 1.
#ifndef GROUP
#define GROUP 1
#define START 0
#define RELU 0
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void lstm_product(__global const float *a, const uint a_at, __global const float *w, const uint w_at,
#if START == 0
                  __global const float *bias, const uint bias_at,
#endif
                  __global float *out, const uint out_at, const int ROWS, const int N, const int K,
                  const int A_ROW, const int OUT_ROW) {
    const size_t j = get_global_id(0), row = get_global_id(1), n = N;
    if (j >= n) return;                          // the last group may hang over the edge
    __global const float *x = a + a_at + (A_ROW + row) * K, *column = w + w_at + j;
    __global float *to = out + out_at + (OUT_ROW + row) * n + j;
#if START == 0
    float sum = bias[bias_at + j];
#else
    float sum = *to;
#endif
    for (int k = 0; k < K; ++k) sum = fma(x[k], column[k * n], sum);
    *to = RELU ? fmax(sum, 0.0f) : sum;
}

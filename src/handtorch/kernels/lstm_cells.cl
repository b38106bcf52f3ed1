// lstm_cells: all point-wise work of the cells on one anti-diagonal of (layer, time), in place:
//   c = sigmoid(f) c + sigmoid(i) tanh(g),  h = sigmoid(o) tanh(c);   at time D - layer = 0 c was zero
// gates f32 [L][BATCH][PADDED], of which 4 H columns i f g o; c, h f32 [L][BATCH][H].
// Item = unit (0), sequence (1), cell from layer FIRST on (2). Aliasing: none. Local memory: none.
// WG: GROUP x 1 x 1.
#ifndef GROUP
#define GROUP 16
#endif
#define SIGMOID(x) (1.0f / (1.0f + exp(-(x))))
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void lstm_cells(__global const float *gates, const uint gates_at, __global float *c, const uint c_at,
                __global float *h, const uint h_at, const int BATCH, const int H, const int PADDED,
                const int D, const int FIRST) {
    const size_t u = get_global_id(0), b = get_global_id(1), layer = FIRST + get_global_id(2);
    if (u >= (size_t)H) return;                  // the last group may hang over the edge
    const size_t row = layer * BATCH + b, at = row * H + u;
    __global const float *gate = gates + gates_at + row * PADDED + u;
    const float old = layer == (size_t)D ? 0.0f : c[c_at + at];
    const float i = SIGMOID(gate[0]), f = SIGMOID(gate[H]), o = SIGMOID(gate[3 * H]);
    const float now = fma(f, old, i * tanh(gate[2 * H]));
    c[c_at + at] = now;
    h[h_at + at] = o * tanh(now);
}

// lstm_point: one point-wise operation, a launch of its own: out = f(a) or f(a, b), COUNT numbers each.
// OP 0: sigmoid(a), 1: tanh(a), 2: ReLU(a), 3: a + b, 4: a b.  a, b, out f32, from A_FROM, B_FROM and
// OUT_FROM on; out may be the very same numbers as a or b. Local memory: none. WG: GROUP.
#ifndef GROUP
#define GROUP 1
#define OP 3
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void lstm_point(__global const float *a, const uint a_at,
#if OP >= 3
                __global const float *b, const uint b_at,
#endif
                __global float *out, const uint out_at, const int COUNT, const int A_FROM,
                const int B_FROM, const int OUT_FROM) {
    const size_t i = get_global_id(0);
    if (i >= (size_t)COUNT) return;              // the last group may hang over the edge
    const float x = a[a_at + A_FROM + i];
#if OP == 0
    const float y = 1.0f / (1.0f + exp(-x));
#elif OP == 1
    const float y = tanh(x);
#elif OP == 2
    const float y = fmax(x, 0.0f);
#elif OP == 3
    const float y = x + b[b_at + B_FROM + i];
#else
    const float y = x * b[b_at + B_FROM + i];
#endif
    out[out_at + OUT_FROM + i] = y;
}

// sgd: d = g + DECAY * w;  m = MOMENTUM * m + d;  w -= lr * m, or lr * (d + MOMENTUM * m) if NESTEROV
// w, m: f32 [COUNT] in place; g: f32 [COUNT]; lr: f32 [1]. No m operand where HAS_MOMENTUM is 0.
// Item = one element. Local memory: none. WG: GROUP.
#ifndef GROUP
#define GROUP 16
#endif
#ifndef HAS_MOMENTUM
#define HAS_MOMENTUM 1
#endif
#ifndef NESTEROV
#define NESTEROV 0
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sgd(__global const float *g, const uint g_at, __global const float *lr, const uint lr_at,
         __global float *w, const uint w_at,
#if HAS_MOMENTUM
         __global float *m, const uint m_at,
#endif
         const int COUNT, const float SIGN, const float DECAY, const float MOMENTUM) {
    const size_t i = get_global_id(0);
    if (i >= (size_t)COUNT) return;              // the last group may hang over the edge
    const float old = w[w_at + i];
    float d = SIGN * g[g_at + i] + DECAY * old;
#if HAS_MOMENTUM
    const float moved = MOMENTUM * m[m_at + i] + d;
    m[m_at + i] = moved;
    d = NESTEROV ? d + MOMENTUM * moved : moved;
#endif
    w[w_at + i] = old - lr[lr_at] * d;
}

// adam: d = SIGN * g + DECAY * w, or w *= c[2] if DECOUPLED (AdamW)
//   m += REST1 * (d - m);  v = BETA2 * v + REST2 * d * d;  top = max(top, v) if HAS_TOP
//   w -= c[0] * m / (sqrt(v or top) * c[1] + EPS)
// w, m, v, top: f32 [COUNT] in place; g: f32 [COUNT]; c: f32 [3] of `tick`. Item = one element.
// Local memory: none. WG: GROUP.
#ifndef GROUP
#define GROUP 16
#endif
#ifndef HAS_TOP
#define HAS_TOP 1
#endif
#ifndef DECOUPLED
#define DECOUPLED 0
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void adam(__global const float *g, const uint g_at, __global const float *c, const uint c_at,
          __global float *w, const uint w_at, __global float *m, const uint m_at,
          __global float *v, const uint v_at,
#if HAS_TOP
          __global float *top, const uint top_at,
#endif
          const int COUNT, const float SIGN, const float DECAY, const float REST1,
          const float BETA2, const float REST2, const float EPS) {
    const size_t i = get_global_id(0);
    if (i >= (size_t)COUNT) return;              // the last group may hang over the edge
#if DECOUPLED
    const float old = w[w_at + i] * c[c_at + 2];
    const float d = SIGN * g[g_at + i];
#else
    const float old = w[w_at + i];
    const float d = SIGN * g[g_at + i] + DECAY * old;
#endif
    const float mean = m[m_at + i] + REST1 * (d - m[m_at + i]);
    const float square = BETA2 * v[v_at + i] + REST2 * d * d;
    m[m_at + i] = mean;
    v[v_at + i] = square;
#if HAS_TOP
    const float largest = top[top_at + i] >= square ? top[top_at + i] : square;   // NaN goes on
    top[top_at + i] = largest;
    const float below = sqrt(largest) * c[c_at + 1] + EPS;
#else
    const float below = sqrt(square) * c[c_at + 1] + EPS;
#endif
    w[w_at + i] = old - c[c_at] * (mean / below);
}

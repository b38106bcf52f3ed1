// adagrad: d = SIGN * g + DECAY * w;  s += d * d;  w -= c[0] * d / (sqrt(s) + EPS)
// w, s: f32 [COUNT] in place; g: f32 [COUNT]; c: f32 [3] of `tick`. Item = one element.
// Local memory: none. WG: GROUP.
#ifndef GROUP
#define GROUP 16
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void adagrad(__global const float *g, const uint g_at, __global const float *c, const uint c_at,
             __global float *w, const uint w_at, __global float *s, const uint s_at,
             const int COUNT, const float SIGN, const float DECAY, const float EPS) {
    const size_t i = get_global_id(0);
    if (i >= (size_t)COUNT) return;              // the last group may hang over the edge
    const float old = w[w_at + i];
    const float d = SIGN * g[g_at + i] + DECAY * old;
    const float total = s[s_at + i] + d * d;
    s[s_at + i] = total;
    w[w_at + i] = old - c[c_at] * (d / (sqrt(total) + EPS));
}

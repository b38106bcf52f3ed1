// rmsprop: d = SIGN * g + DECAY * w;  s = ALPHA * s + REST * d * d;  a += REST * (d - a) if CENTERED
//   u = d / (sqrt(s or s - a * a) + EPS);  b = MOMENTUM * b + u if HAS_MOMENTUM;  w -= c[0] * (u or b)
// w, s, a, b: f32 [COUNT] in place; g: f32 [COUNT]; c: f32 [3] of `tick`. Item = one element.
// Local memory: none. WG: GROUP.
#ifndef GROUP
#define GROUP 16
#endif
#ifndef CENTERED
#define CENTERED 1
#endif
#ifndef HAS_MOMENTUM
#define HAS_MOMENTUM 1
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void rmsprop(__global const float *g, const uint g_at, __global const float *c, const uint c_at,
             __global float *w, const uint w_at, __global float *s, const uint s_at,
#if CENTERED
             __global float *a, const uint a_at,
#endif
#if HAS_MOMENTUM
             __global float *b, const uint b_at,
#endif
             const int COUNT, const float SIGN, const float DECAY, const float ALPHA,
             const float REST, const float EPS, const float MOMENTUM) {
    const size_t i = get_global_id(0);
    if (i >= (size_t)COUNT) return;              // the last group may hang over the edge
    const float old = w[w_at + i];
    const float d = SIGN * g[g_at + i] + DECAY * old;
    const float square = ALPHA * s[s_at + i] + REST * d * d;
    s[s_at + i] = square;
#if CENTERED
    const float mean = a[a_at + i] + REST * (d - a[a_at + i]);
    a[a_at + i] = mean;
    float u = d / (sqrt(square - mean * mean) + EPS);
#else
    float u = d / (sqrt(square) + EPS);
#endif
#if HAS_MOMENTUM
    u = MOMENTUM * b[b_at + i] + u;
    b[b_at + i] = u;
#endif
    w[w_at + i] = old - c[c_at] * u;
}

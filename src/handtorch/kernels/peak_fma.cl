// peak_fma: multiply-adds with no memory between them: the ceiling of any kernel's arithmetic.
//   c_i = c_i * X + Y, LOOPS times, for CHAINS independent vectors c_i of V; out[item] = their sum.
// out f32 [ITEMS].  CHAINS must cover the latency of a multiply-add: on AVX-512 4 cycles x 2 units.
// Local memory: none.  Work-group: WG.  V: 2, 4, 8 or 16.
#ifndef V
#define V 4
#define CHAINS 8
#define WG 1
#endif
#define FLOATS VEC(float, V)
#define START(r) FLOATS c##r = (float)(item + r);
#define ROUND(r) c##r = fma(c##r, x, y);
#define SUM(r) s += c##r;
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void peak_fma(__global float *out, const uint out_at,
              const int ITEMS, const int LOOPS, const float X, const float Y) {
    const size_t item = get_global_id(0);
    if (item >= (size_t)ITEMS) return;              // the last group may hang over the edge
    const FLOATS x = X, y = Y;
    EACH_ROW(CHAINS, START)
    for (int i = 0; i < LOOPS; ++i) { EACH_ROW(CHAINS, ROUND) }
    FLOATS s = 0.0f;
    EACH_ROW(CHAINS, SUM)
    float lanes[V], total = 0.0f;
    VSTORE(V)(s, 0, lanes);
    for (int l = 0; l < V; ++l) total += lanes[l];
    out[out_at + item] = total;
}

// unroll.h: repeat a macro with a literal index, so that registers have names instead of subscripts
// (Arm's and Qualcomm's compilers spill private arrays, even when fully unrolled).
//   EACH_ROW(n, X)       -> X(0) X(1) ... X(n-1)          n up to 16
//   EACH_COL(n, X, r)    -> X(r, 0) X(r, 1) ... X(r, n-1)  n up to 8; nests inside EACH_ROW
#ifndef HANDTORCH_UNROLL_H
#define HANDTORCH_UNROLL_H
#define HT_CAT_(a, b) a##b
#define HT_CAT(a, b) HT_CAT_(a, b)
#define HT_ROW_1(X) X(0)
#define HT_ROW_2(X) HT_ROW_1(X) X(1)
#define HT_ROW_3(X) HT_ROW_2(X) X(2)
#define HT_ROW_4(X) HT_ROW_3(X) X(3)
#define HT_ROW_5(X) HT_ROW_4(X) X(4)
#define HT_ROW_6(X) HT_ROW_5(X) X(5)
#define HT_ROW_7(X) HT_ROW_6(X) X(6)
#define HT_ROW_8(X) HT_ROW_7(X) X(7)
#define HT_ROW_9(X) HT_ROW_8(X) X(8)
#define HT_ROW_10(X) HT_ROW_9(X) X(9)
#define HT_ROW_11(X) HT_ROW_10(X) X(10)
#define HT_ROW_12(X) HT_ROW_11(X) X(11)
#define HT_ROW_13(X) HT_ROW_12(X) X(12)
#define HT_ROW_14(X) HT_ROW_13(X) X(13)
#define HT_ROW_15(X) HT_ROW_14(X) X(14)
#define HT_ROW_16(X) HT_ROW_15(X) X(15)
#define EACH_ROW(n, X) HT_CAT(HT_ROW_, n)(X)
#define HT_COL_1(X, r) X(r, 0)
#define HT_COL_2(X, r) HT_COL_1(X, r) X(r, 1)
#define HT_COL_3(X, r) HT_COL_2(X, r) X(r, 2)
#define HT_COL_4(X, r) HT_COL_3(X, r) X(r, 3)
#define HT_COL_5(X, r) HT_COL_4(X, r) X(r, 4)
#define HT_COL_6(X, r) HT_COL_5(X, r) X(r, 5)
#define HT_COL_7(X, r) HT_COL_6(X, r) X(r, 6)
#define HT_COL_8(X, r) HT_COL_7(X, r) X(r, 7)
#define EACH_COL(n, X, r) HT_CAT(HT_COL_, n)(X, r)
// OpenCL C has no vectors of one; these make width 1 mean a plain scalar.
#define float1 float
#define int1 int
#define as_float1 as_float
#define as_int1 as_int
#define vload1(o, p) ((p)[o])
#define vstore1(v, o, p) ((p)[o] = (v))
#define VEC(type, width) HT_CAT(type, width)
// Pasted at once: PoCL has a macro `vload` of its own.
#define HT_VLOAD(width) vload##width
#define HT_VSTORE(width) vstore##width
#define VLOAD(width) HT_VLOAD(width)
#define VSTORE(width) HT_VSTORE(width)
// AHEAD(p): the cache line at p will be read soon; the next cache but one is near enough. PoCL's own
// prefetch does nothing and Intel's is a call; both compilers know the builtin. Oclgrind does not.
#if defined(__x86_64__) || defined(__aarch64__) || defined(__INTEL_LLVM_COMPILER)
#define HT_CORE 1
#define AHEAD(p) __builtin_prefetch((const void *)(uintptr_t)(p), 0, 2)
#else
#define HT_CORE 0
#define AHEAD(p) prefetch(p, 1)
#endif
// LANE_SUM4, 8, 16(v), LANE_MAX16(v): across the lanes of a vector, in pairs. Lane by lane, not .lo + .hi:
// Oclgrind 21.10 takes lanes 8 to 15 of a swizzle for uninitialised, or crashes.
#define HT_ADD(a, b) ((a) + (b))
#define HT_FOLD4(F, v, a, b, c, d) F(F((v).s##a, (v).s##b), F((v).s##c, (v).s##d))
#define HT_FOLD16(F, v) F(F(HT_FOLD4(F, v, 0, 1, 2, 3), HT_FOLD4(F, v, 4, 5, 6, 7)), \
                          F(HT_FOLD4(F, v, 8, 9, a, b), HT_FOLD4(F, v, c, d, e, f)))
#define LANE_SUM4(v) HT_FOLD4(HT_ADD, v, 0, 1, 2, 3)
#define LANE_SUM8(v) HT_ADD(LANE_SUM4(v), HT_FOLD4(HT_ADD, v, 4, 5, 6, 7))
#define LANE_SUM16(v) HT_FOLD16(HT_ADD, v)
#define LANE_MAX16(v) HT_FOLD16(fmax, v)
// EXP16(y, x): y = exp(x) for float16 x below 88, within 3 ulp near 0; 0 from -87 down, NaN is NaN.
// 2^(n + f): adding 1.5 * 2^23 rounds to the whole number n and leaves it in the lowest bits, from where
// it moves into the exponent. The polynomial is 2^f for |f| <= 1/2, 9e-8 off. The runtimes' own exp
// costs up to twice as much.
// EXP16_NEAR(y, x, zero, stray): y = exp(x) / 2^k for zero = EXP16_ZERO - k, k whole and below 2^20, with the
// fewest operations, if 2^-96 < y < 2^31. If not, or if x is NaN, the uint16 `stray` becomes more than
// 127 there and stays so: n + 96 has seven bits, and any other bit that should not be there is kept.
#define EXP16_ZERO 12583008.0f                   // 1.5 * 2^23 + 96
#define HT_LOG2E 1.44269504f
#define HT_POWER16(p, f, one) \
    float16 p = (one) * 1.32647273e-3f * (f) + (one) * 9.67151299e-3f; \
    p = p * (f) + (one) * 5.55073358e-2f; \
    p = p * (f) + (one) * 0.240222424f; \
    p = p * (f) + (one) * 0.693147004f; \
    p = p * (f) + (one)
#define EXP16(y, x) do { \
    const float16 ht_x = (x), ht_t = ht_x * HT_LOG2E + 12582912.0f; \
    const float16 ht_f = ht_x * HT_LOG2E - (ht_t - 12582912.0f); \
    HT_POWER16(ht_p, ht_f, 1.0f); \
    y = as_float16((as_int16(ht_p) + (as_int16(ht_t) << 23)) & ~(ht_x < -87.0f)); \
} while (0)
#define EXP16_NEAR(y, x, zero, stray) do { \
    const float16 ht_x = (x), ht_t = ht_x * HT_LOG2E + (zero); \
    const float16 ht_f = fma(ht_x, (float16)(HT_LOG2E), (zero) - ht_t); \
    HT_POWER16(ht_p, ht_f, 1.26217745e-29f);     /* 2^-96 */ \
    y = as_float16(as_int16(ht_p) + (as_int16(ht_t) << 23)); \
    stray |= as_uint16(ht_t) ^ 0x4b400000u; \
} while (0)
// pair_sums16(a, b): the sums of neighbouring lanes, first a's, then b's. Four rounds of it make 16
// vectors' sums one vector, in order. A function: as a macro, four rounds would be a megabyte of text.
static inline float16 pair_sums16(const float16 a, const float16 b) {
    return (float16)(a.s0, a.s2, a.s4, a.s6, a.s8, a.sa, a.sc, a.se,
                     b.s0, b.s2, b.s4, b.s6, b.s8, b.sa, b.sc, b.se) +
           (float16)(a.s1, a.s3, a.s5, a.s7, a.s9, a.sb, a.sd, a.sf,
                     b.s1, b.s3, b.s5, b.s7, b.s9, b.sb, b.sd, b.sf);
}
// run_sum(p, count): the sum of count numbers; count_others(p, count, one): how many of them are not one.
static inline float run_sum(__global const float *p, const int count) {
    float16 sums = 0.0f;
    float sum = 0.0f;
    int c = 0;
    for (; c + 16 <= count; c += 16) sums += vload16(0, p + c);
    for (; c < count; c++) sum += p[c];
    return sum + LANE_SUM16(sums);
}
static inline int count_others(__global const int *p, const int count, const int one) {
    int16 same = 0;                              // -1 for each
    int more = count, c = 0;
    for (; c + 16 <= count; c += 16) same += vload16(0, p + c) == one;
    for (; c < count; c++) more -= p[c] == one;
    return more + LANE_SUM16(same);
}
// FOUR_SUMS4, 8, 16(a, b, c, d): across the lanes of each of four vectors.
static inline float4 four_sums16(const float16 a, const float16 b, const float16 c, const float16 d) {
    const float16 s = pair_sums16(pair_sums16(a, b), pair_sums16(c, d));
    return ((float4)(s.s0, s.s4, s.s8, s.sc) + (float4)(s.s1, s.s5, s.s9, s.sd)) +
           ((float4)(s.s2, s.s6, s.sa, s.se) + (float4)(s.s3, s.s7, s.sb, s.sf));
}
#define FOUR_SUMS16(a, b, c, d) four_sums16(a, b, c, d)
#define FOUR_SUMS8(a, b, c, d) ((float4)(LANE_SUM8(a), LANE_SUM8(b), LANE_SUM8(c), LANE_SUM8(d)))
#define FOUR_SUMS4(a, b, c, d) ((float4)(LANE_SUM4(a), LANE_SUM4(b), LANE_SUM4(c), LANE_SUM4(d)))
// TURN16(x, y): vectors y0..y15 of 16 floats, yr made of lane r of each of x0..x15, in order. Four rounds of
// perfect shuffles, so that nothing passes through memory. Functions: as macros, a megabyte of text.
static inline float16 mixed_low16(const float16 a, const float16 b) {
    return (float16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3,
                     a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
}
static inline float16 mixed_high16(const float16 a, const float16 b) {
    return (float16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb,
                     a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf);
}
#define HT_MIX(x, k, l, y, i, j) \
    const float16 y##i = mixed_low16(x##k, x##l), y##j = mixed_high16(x##k, x##l);
#define HT_MIXED(x, y) HT_MIX(x, 0, 8, y, 0, 1) HT_MIX(x, 1, 9, y, 2, 3) HT_MIX(x, 2, 10, y, 4, 5) \
    HT_MIX(x, 3, 11, y, 6, 7) HT_MIX(x, 4, 12, y, 8, 9) HT_MIX(x, 5, 13, y, 10, 11) \
    HT_MIX(x, 6, 14, y, 12, 13) HT_MIX(x, 7, 15, y, 14, 15)
#define TURN16(x, y) HT_MIXED(x, ht_p) HT_MIXED(ht_p, ht_q) HT_MIXED(ht_q, ht_r) HT_MIXED(ht_r, y)
// LOAD_V(i, p), STORE_V(x, i, p): for the V of the kernel that stands here.
#define LOAD_V VLOAD(V)
#define STORE_V VSTORE(V)
// EPILOGUE(T, LD, c, at): what a convolution does to `s`, a T of results of channels from c on that will
// lie at y[at]: + bias[c] if BIAS, + more[at] if MORE, then max(s, 0) if ACT, then 0 where
// mask[at] <= 0 if MASK. EPILOGUE_GIVEN: what the kernel is given for it. STORE_AHEAD(at), if HT_CORE: it is
// asked for the line at y[at], because a store that misses its cache fetches it first, and for what the
// epilogue reads there.
#define HT_BIAS_0(LD, c)
#define HT_BIAS_1(LD, c) s += LD(0, bias + bias_at + (c));
#define HT_MORE_0(LD, at)
#define HT_MORE_1(LD, at) s += LD(0, more + more_at + (at));
#define HT_ACT_0(T)
#define HT_ACT_1(T) s = select(s, (T)0.0f, s < 0.0f);           // keeps NaN, as torch does
#define HT_MASK_0(T, LD, at)
#define HT_MASK_1(T, LD, at) s = select(s, (T)0.0f, LD(0, mask + mask_at + (at)) <= 0.0f);
#define EPILOGUE(T, LD, c, at) HT_CAT(HT_BIAS_, BIAS)(LD, c) HT_CAT(HT_MORE_, MORE)(LD, at) \
    HT_CAT(HT_ACT_, ACT)(T) HT_CAT(HT_MASK_, MASK)(T, LD, at)
#define HT_AHEAD_0(name, at)
#define HT_AHEAD_1(name, at) AHEAD(name + name##_at + (at));
#define STORE_AHEAD(at) HT_CAT(HT_AHEAD_, MORE)(more, at) HT_CAT(HT_AHEAD_, MASK)(mask, at) \
    __builtin_prefetch((const void *)(uintptr_t)(y + y_at + (at)), 1, 3);
#define HT_GIVEN_0(name)
#define HT_GIVEN_1(name) __global const float *name, const uint name##_at,
#define EPILOGUE_GIVEN \
    HT_CAT(HT_GIVEN_, BIAS)(bias) HT_CAT(HT_GIVEN_, MORE)(more) HT_CAT(HT_GIVEN_, MASK)(mask)
// Of Winograd's convolutions of 3 x 3 taps: d, the 4 x 4 pixels of x that a tile of 2 x 2 results sees.
// WINOGRAD_TILE: where they lie, from (top, left) on in the image whose first row is `base`; in a kernel
// with IN_H, IN_W, `inner` and `from`. WINOGRAD_SEEN(to, plane): (B^T d B)[i][j] of VX channels from c on goes
// to to[(4 i + j) plane]; what lies outside is 0.  B^T = (1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1).
#define HT_SIDE(i) const int h##i = top + i, v##i = left + i; \
    const bool in_h##i = h##i >= 0 && h##i < IN_H, in_v##i = v##i >= 0 && v##i < IN_W; \
    const size_t line##i = (base + clamp(h##i, 0, IN_H - 1)) * IN_W, col##i = clamp(v##i, 0, IN_W - 1);
#define HT_POINT(i) EACH_COL(4, HT_POINT_AT, i)
#define HT_POINT_AT(i, j) __global const float *d_at##i##j = from + (line##i + col##j) * inner; \
    const bool in##i##j = in_h##i && in_v##j;
#define WINOGRAD_TILE EACH_ROW(4, HT_SIDE) EACH_ROW(4, HT_POINT) \
    const size_t ht_far = (clamp(left + 6, 0, IN_W - 1) - col3) * inner, \
                 ht_farther = (clamp(left + 7, 0, IN_W - 1) - col3) * inner;
#define HT_NEXT(i) AHEAD(d_at##i##3 + ht_far + c); AHEAD(d_at##i##3 + ht_farther + c);
#define HT_FETCH(i) EACH_COL(4, HT_FETCH_AT, i)
#define HT_FETCH_AT(i, j) \
    const VEC(float, VX) d##i##j = in##i##j ? VLOAD(VX)(0, d_at##i##j + c) : (VEC(float, VX))0.0f;
#define HT_DOWN(j) const VEC(float, VX) t0##j = d0##j - d2##j, t1##j = d1##j + d2##j, \
    t2##j = d2##j - d1##j, t3##j = d1##j - d3##j;
#define HT_ACROSS(i, to, plane) \
    VSTORE(VX)(t##i##0 - t##i##2, 0, (to) + (4 * i) * (plane)); \
    VSTORE(VX)(t##i##1 + t##i##2, 0, (to) + (4 * i + 1) * (plane)); \
    VSTORE(VX)(t##i##2 - t##i##1, 0, (to) + (4 * i + 2) * (plane)); \
    VSTORE(VX)(t##i##1 - t##i##3, 0, (to) + (4 * i + 3) * (plane));
#define WINOGRAD_SEEN(to, plane) if (c % 16 == 0) { EACH_ROW(4, HT_NEXT) } \
    EACH_ROW(4, HT_FETCH) EACH_ROW(4, HT_DOWN) \
    HT_ACROSS(0, to, plane) HT_ACROSS(1, to, plane) HT_ACROSS(2, to, plane) HT_ACROSS(3, to, plane)
// WITHIN and POWERS are for vectors of the kernel's V floats, FLOATS.
#define WITHIN(x, most) select(select(x, (FLOATS)-(most), (x) < -(most)), (FLOATS)(most), (x) > (most))
// exp(x) = s (1 + q), s a power of two, |q| < 0.42, so that exp(x) - 1 does not cancel near 0; |x| < 88.
// Cephes' polynomial, its terms in pairs: one after the other they would take half as long again.
// ln 2 in one number: 2e-9 off for each doubling. Adding 1.5 2^23 rounds and leaves the exponent in the low
// bits. NaN stays NaN.
#define POWERS(x) \
    const FLOATS up = fma(x, 1.44269504089f, 12582912.0f), whole_ = up - 12582912.0f; \
    const FLOATS rest = fma(whole_, -0.69314718056f, x), rest2 = rest * rest; \
    const FLOATS high = fma(rest, 1.9875691500e-4f, 1.3981999507e-3f); \
    const FLOATS middle = fma(rest, 8.3334519073e-3f, 4.1665795894e-2f); \
    const FLOATS low = fma(rest, 1.6666665459e-1f, 5.0000001201e-1f); \
    const FLOATS q = fma(fma(fma(high, rest2, middle), rest2, low), rest2, rest); \
    const FLOATS s_ = VEC(as_float, V)((VEC(as_int, V)(up) << 23) + 0x3f800000);
#endif

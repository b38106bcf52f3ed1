// random: y = Philox4x32-10 of counter (block, step, STREAM, 0) under the key (seed low, seed high)
// state: u32 [3] = seed low, seed high, step. y: [COUNT], element 4 * block + lane.
// KIND 0: f32 uniform in [0, 1), multiples of 2^-24. KIND 1: f32 normal, by Box and Muller in pairs.
// KIND 2: i32 in LOW .. LOW + RANGE - 1.  Item = one block. Local memory: none. WG: GROUP.
#ifndef GROUP
#define GROUP 16
#endif
#ifndef KIND
#define KIND 0
#endif
#if KIND == 2
#define T int
#else
#define T float
#endif
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void random(__global const uint *state, const uint state_at, __global T *y, const uint y_at,
            const uint COUNT, const uint STREAM, const int LOW, const uint RANGE) {
    const size_t block = get_global_id(0);
    if (block * 4 >= (size_t)COUNT) return;      // the last group may hang over the edge
    uint c0 = (uint)block, c1 = state[state_at + 2], c2 = STREAM, c3 = 0u;
    uint k0 = state[state_at], k1 = state[state_at + 1];
    for (int round = 0; round < 10; round++) {
        const uint low0 = c0 * 0xD2511F53u, high0 = mul_hi(c0, 0xD2511F53u);
        const uint low1 = c2 * 0xCD9E8D57u, high1 = mul_hi(c2, 0xCD9E8D57u);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
#if KIND == 2
    const int r0 = LOW + (int)mul_hi(c0, RANGE), r1 = LOW + (int)mul_hi(c1, RANGE);
    const int r2 = LOW + (int)mul_hi(c2, RANGE), r3 = LOW + (int)mul_hi(c3, RANGE);
#else
    const float scale = 5.9604644775390625e-8f;  // 2^-24
    const float u0 = (float)(c0 >> 8) * scale, u1 = (float)(c1 >> 8) * scale;
    const float u2 = (float)(c2 >> 8) * scale, u3 = (float)(c3 >> 8) * scale;
#if KIND == 1
    const float ra = sqrt(-2.0f * log(1.0f - u0)), rb = sqrt(-2.0f * log(1.0f - u2));
    const float r0 = ra * cospi(2.0f * u1), r1 = ra * sinpi(2.0f * u1);
    const float r2 = rb * cospi(2.0f * u3), r3 = rb * sinpi(2.0f * u3);
#else
    const float r0 = u0, r1 = u1, r2 = u2, r3 = u3;
#endif
#endif
    const size_t at = y_at + block * 4, left = (size_t)COUNT - block * 4;
    y[at] = r0;
    if (left > 1) y[at + 1] = r1;
    if (left > 2) y[at + 2] = r2;
    if (left > 3) y[at + 3] = r3;
}

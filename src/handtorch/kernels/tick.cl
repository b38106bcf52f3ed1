// tick: t += 1; c = [step size, 1 / sqrt(1 - b2^t), 1 - lr * DECAY]
//   step size = lr / (1 + (t - 1) * LR_DECAY) / (1 - b1^t)
// t: f32 [1] in place; lr: f32 [1]; c: f32 [3]. LOG_B is log(b), or 0 where there is no correction.
// 1 - b^t as -expm1(t log b): for b = 0.999 the subtraction would lose four digits.
// One item: every parameter of the group reads c. Local memory: none.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void tick(__global const float *lr, const uint lr_at, __global float *t, const uint t_at,
          __global float *c, const uint c_at,
          const float LOG_B1, const float LOG_B2, const float DECAY, const float LR_DECAY) {
    const float now = t[t_at] + 1.0f;
    const float rate = lr[lr_at];
    const float first = LOG_B1 < 0.0f ? -expm1(now * LOG_B1) : 1.0f;
    const float second = LOG_B2 < 0.0f ? -expm1(now * LOG_B2) : 1.0f;
    t[t_at] = now;
    c[c_at] = rate / (1.0f + (now - 1.0f) * LR_DECAY) / first;
    c[c_at + 1] = 1.0f / sqrt(second);
    c[c_at + 2] = 1.0f - rate * DECAY;
}

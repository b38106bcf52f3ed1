// rng_next: the step counter of the random numbers moves on.  state: u32 [3] in place. One item.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rng_next(__global uint *state, const uint state_at) {
    state[state_at + 2] += 1u;
}

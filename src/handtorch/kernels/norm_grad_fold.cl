// norm_grad_fold: dw[c] = sum of parts[k][0][c], db[c] = sum of parts[k][1][c]
// parts: f32 [CHUNKS][2][CHANNELS]; dw, db: f32 [CHANNELS].
// V divides CHANNELS. Item = V channels. Aliasing: none. Local memory: none. WG: GROUP.
#ifndef GROUP
#define GROUP 16
#define V 4
#endif
#define FV VEC(float, V)
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_grad_fold(__global const float *parts, const uint parts_at, __global float *dw,
                    const uint dw_at, __global float *db, const uint db_at, const int CHANNELS,
                    const int CHUNKS) {
    const size_t c = get_global_id(0) * V, channels = CHANNELS, chunks = CHUNKS;
    if (c >= channels) return;                   // the last group may hang over the edge
    __global const float *p = parts + parts_at + c;
    FV w = 0.0f, b = 0.0f;
    for (size_t k = 0; k < chunks; k++) {
        w += VLOAD(V)(0, p + k * 2 * channels);
        b += VLOAD(V)(0, p + (k * 2 + 1) * channels);
    }
    VSTORE(V)(w, 0, dw + dw_at + c);
    VSTORE(V)(b, 0, db + db_at + c);
}

void smooth(const float *src, int src_stride, const float *gain, float *dst, int dst_stride,
            int width, int height) {
    for (int y = 0; y < height; y++) {
        const float *at = src + y * src_stride;
        float *to = dst + y * dst_stride;
#pragma clang loop unroll_count(UNROLL)
        for (int x = 0; x < width; x++) {
            float sum = at[x] + 2 * at[x + 1] + at[x + 2];
            to[x] = gain[x] * sum + 0.5f;
        }
    }
}

/* C[m, n] = scaled sum over k of (A[m, k] - zero_a) (B[k, n] - zero_b): a row of C at a time. */
uint32_t *sums = scratch(4 * C_extent_0);
for (int y = 0; y < C_extent_1; ++y) {
    for (int x = 0; x < C_extent_0; ++x) sums[x] = bias[x];
    for (int k = 0; k < A_extent_0; ++k) {
        int16_t a = A[y * A_stride_1 + k] - numbers[0];
        for (int x = 0; x < C_extent_0; ++x)
            sums[x] += a * (int16_t)(B[k * B_stride_1 + x] - numbers[4]);
    }
    for (int x = 0; x < C_extent_0; ++x) {
        long long scaled = (long long)(int32_t)sums[x] * multiplier[x] + (1 << 30);
        int value = (int)clamped((scaled >> 31) + numbers[1], 0, 255);
        value = value > numbers[3] ? numbers[3] : value;
        C[y * C_stride_1 + x] = value < numbers[2] ? numbers[2] : value;
    }
}

/* C[m, n] = sum over k of A[m, k] B[k, n]: a row of C at a time. B has four rows interleaved. */
for (int y = 0; y < C_extent_1; ++y) {
    uint32_t *sums = C + y * C_stride_1;
    const uint8_t *left = A + y * A_stride_1;
    for (int x = 0; x < C_extent_0; ++x) sums[x] = 0;
    int k = 0;
    for (; k + 4 <= A_extent_0; k += 4) {
        const uint8_t *right = B + k / 4 * B_stride_1;
        for (int x = 0; x < C_extent_0; ++x)
            sums[x] += (uint32_t)left[k] * right[4 * x] + (uint32_t)left[k + 1] * right[4 * x + 1] +
                       (uint32_t)left[k + 2] * right[4 * x + 2] +
                       (uint32_t)left[k + 3] * right[4 * x + 3];
    }
    for (; k < A_extent_0; ++k)
        for (int x = 0; x < C_extent_0; ++x)
            sums[x] += (uint32_t)left[k] * B[k / 4 * B_stride_1 + 4 * x + k % 4];
}

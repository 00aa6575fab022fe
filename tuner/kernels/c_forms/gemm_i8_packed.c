/* C[m, n] = sum over k of A[m, k] B[k, n]: a row of C at a time. B has four rows interleaved, with 128
   added. */
for (int y = 0; y < C_extent_1; ++y) {
    int32_t *sums = C + y * C_stride_1;
    const int8_t *left = A + y * A_stride_1;
    int32_t start = 0;
    for (int k = 0; k < A_extent_0; ++k) start -= 128 * left[k];
    for (int x = 0; x < C_extent_0; ++x) sums[x] = start;
    int k = 0;
    for (; k + 4 <= A_extent_0; k += 4) {
        const uint8_t *right = B + k / 4 * B_stride_1;
        for (int x = 0; x < C_extent_0; ++x)
            sums[x] += (int32_t)left[k] * right[4 * x] + (int32_t)left[k + 1] * right[4 * x + 1] +
                       (int32_t)left[k + 2] * right[4 * x + 2] +
                       (int32_t)left[k + 3] * right[4 * x + 3];
    }
    for (; k < A_extent_0; ++k)
        for (int x = 0; x < C_extent_0; ++x)
            sums[x] += (int32_t)left[k] * B[k / 4 * B_stride_1 + 4 * x + k % 4];
}

/* C[m, n] = sum over k of A[m, k] B[k, n]: four steps of k for each pass over a row of C. */
for (int y = 0; y < C_extent_1; ++y) {
    int32_t *sums = C + y * C_stride_1;
    for (int x = 0; x < C_extent_0; ++x) sums[x] = 0;
    int k = 0;
    for (; k + 4 <= A_extent_0; k += 4) {
        const int8_t *left = A + y * A_stride_1 + k, *right = B + k * B_stride_1;
        for (int x = 0; x < C_extent_0; ++x)
            sums[x] += (int32_t)left[0] * right[x] + (int32_t)left[1] * right[B_stride_1 + x] +
                       (int32_t)left[2] * right[2 * B_stride_1 + x] +
                       (int32_t)left[3] * right[3 * B_stride_1 + x];
    }
    for (; k < A_extent_0; ++k)
        for (int x = 0; x < C_extent_0; ++x)
            sums[x] += (int32_t)A[y * A_stride_1 + k] * B[k * B_stride_1 + x];
}

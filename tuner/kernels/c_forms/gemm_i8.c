/* C[m, n] = sum over k of A[m, k] B[k, n]: a row of C at a time. */
for (int y = 0; y < C_extent_1; ++y) {
    int32_t *sums = C + y * C_stride_1;
    for (int x = 0; x < C_extent_0; ++x) sums[x] = 0;
    for (int k = 0; k < A_extent_0; ++k)
        for (int x = 0; x < C_extent_0; ++x)
            sums[x] += (int32_t)A[y * A_stride_1 + k] * B[k * B_stride_1 + x];
}

/* 5x5 binomial blur, edges repeated: down the columns into a row of sums with two more at each end,
   then along it. The first sum lies on a vector boundary. */
uint16_t *sums = scratch(2 * output_extent_0 + 2 * VECTOR_BYTES);
sums += VECTOR_BYTES / 2;
for (int y = 0; y < output_extent_1; ++y) {
    const uint8_t *rows[5];
    for (int i = 0; i < 5; ++i)
        rows[i] = input + clamped(y + i - 2, 0, output_extent_1 - 1) * input_stride_1;
    for (int x = 0; x < output_extent_0; ++x)
        sums[x] = (uint16_t)(rows[0][x] + rows[4][x] + 4 * (rows[1][x] + rows[3][x]) +
                             6 * rows[2][x]);
    sums[-2] = sums[-1] = sums[0];
    sums[output_extent_0] = sums[output_extent_0 + 1] = sums[output_extent_0 - 1];
    for (int x = 0; x < output_extent_0; ++x) {
        uint16_t total = (uint16_t)(sums[x - 2] + sums[x + 2] + 4 * (sums[x - 1] + sums[x + 1]) +
                                    6 * sums[x] + 128);
        output[y * output_stride_1 + x] = (uint8_t)(total >> 8);
    }
}

/* 5x5 binomial blur, edges repeated: down the columns into a row of sums with two more at each end,
   then along it. */
uint16_t *sums = scratch(2 * (output_extent_0 + 4));
for (int y = 0; y < output_extent_1; ++y) {
    const uint8_t *rows[5];
    for (int i = 0; i < 5; ++i) {
        int row = y + i - 2;
        row = row < 0 ? 0 : row >= output_extent_1 ? output_extent_1 - 1 : row;
        rows[i] = input + row * input_stride_1;
    }
    for (int x = 0; x < output_extent_0; ++x)
        sums[x + 2] = (uint16_t)(rows[0][x] + rows[4][x] + 4 * (rows[1][x] + rows[3][x]) +
                                 6 * rows[2][x]);
    sums[0] = sums[1] = sums[2];
    sums[output_extent_0 + 2] = sums[output_extent_0 + 3] = sums[output_extent_0 + 1];
    for (int x = 0; x < output_extent_0; ++x) {
        uint16_t total = (uint16_t)(sums[x] + sums[x + 4] + 4 * (sums[x + 1] + sums[x + 3]) +
                                    6 * sums[x + 2] + 128);
        output[y * output_stride_1 + x] = (uint8_t)(total >> 8);
    }
}

/* 3x3 mean, edges repeated: down the columns into a row of sums with one more at each end, then
   along it. The first sum lies on a vector boundary. */
uint16_t *sums = scratch(2 * output_extent_0 + 2 * VECTOR_BYTES);
sums += VECTOR_BYTES / 2;
for (int y = 0; y < output_extent_1; ++y) {
    const uint8_t *above = input + (y > 0 ? y - 1 : 0) * input_stride_1;
    const uint8_t *row = input + y * input_stride_1;
    const uint8_t *below = input + (y + 1 < output_extent_1 ? y + 1 : y) * input_stride_1;
    for (int x = 0; x < output_extent_0; ++x) sums[x] = (uint16_t)(above[x] + row[x] + below[x]);
    sums[-1] = sums[0];
    sums[output_extent_0] = sums[output_extent_0 - 1];
    for (int x = 0; x < output_extent_0; ++x) {
        uint32_t total = (uint32_t)sums[x - 1] + sums[x] + sums[x + 1] + 4;
        output[y * output_stride_1 + x] = (uint8_t)((total * 7282) >> 16); /* / 9 up to 2299 */
    }
}

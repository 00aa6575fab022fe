/* Edge strength |gx| + |gy|, edges repeated: sums and differences down the columns into rows with
   one more at each end, then along them. The first of a row lies on a vector boundary. */
int16_t *smooth = scratch(2 * output_extent_0 + 2 * VECTOR_BYTES);
int16_t *slope = scratch(2 * output_extent_0 + 2 * VECTOR_BYTES);
smooth += VECTOR_BYTES / 2, slope += VECTOR_BYTES / 2;
for (int y = 0; y < output_extent_1; ++y) {
    const uint8_t *above = input + (y > 0 ? y - 1 : 0) * input_stride_1;
    const uint8_t *row = input + y * input_stride_1;
    const uint8_t *below = input + (y + 1 < output_extent_1 ? y + 1 : y) * input_stride_1;
    for (int x = 0; x < output_extent_0; ++x) {
        smooth[x] = (int16_t)(above[x] + 2 * row[x] + below[x]);
        slope[x] = (int16_t)(below[x] - above[x]);
    }
    smooth[-1] = smooth[0], slope[-1] = slope[0];
    smooth[output_extent_0] = smooth[output_extent_0 - 1];
    slope[output_extent_0] = slope[output_extent_0 - 1];
    for (int x = 0; x < output_extent_0; ++x) {
        int16_t gx = (int16_t)(smooth[x + 1] - smooth[x - 1]);
        int16_t gy = (int16_t)(slope[x - 1] + 2 * slope[x] + slope[x + 1]);
        int16_t strength = (int16_t)((gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy));
        output[y * output_stride_1 + x] = (uint8_t)(strength > 255 ? 255 : strength);
    }
}

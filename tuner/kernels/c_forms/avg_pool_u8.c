/* Mean over windows, halves up. */
enum { pixels = size * size };
uint16_t *sums = scratch(2 * output_extent_0);
for (int y = 0; y < output_extent_2; ++y)
    for (int x = 0; x < output_extent_1; ++x) {
        const uint8_t *window = input + y * stride * input_stride_2 + x * stride * input_stride_1;
        for (int c = 0; c < output_extent_0; ++c) sums[c] = pixels / 2;
        for (int i = 0; i < size; ++i)
            for (int j = 0; j < size; ++j)
                for (int c = 0; c < output_extent_0; ++c)
                    sums[c] += window[i * input_stride_2 + j * input_stride_1 + c];
        for (int c = 0; c < output_extent_0; ++c)
            output[y * output_stride_2 + x * output_stride_1 + c] = (uint8_t)(sums[c] / pixels);
    }

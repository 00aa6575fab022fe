/* 3x3 depthwise convolution, requantized: channels inside. What is beyond the image counts as its
   zero point. */
int32_t *sums = scratch(4 * output_extent_0);
for (int y = 0; y < output_extent_2; ++y)
    for (int x = 0; x < output_extent_1; ++x) {
        for (int c = 0; c < output_extent_0; ++c) sums[c] = 0;
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j) {
                int row = y * stride + i - 1, column = x * stride + j - 1;
                if (row < 0 || row >= input_extent_2 || column < 0 || column >= input_extent_1)
                    continue;
                const uint8_t *pixel = input + row * input_stride_2 + column * input_stride_1;
                const int8_t *tap = weights + i * weights_stride_2 + j * weights_stride_1;
                for (int c = 0; c < output_extent_0; ++c)
                    sums[c] += (int16_t)(pixel[c] - zero_in) * (int16_t)tap[c];
            }
        uint8_t *to = output + y * output_stride_2 + x * output_stride_1;
        for (int c = 0; c < output_extent_0; ++c) to[c] = requantized(sums[c]);
    }

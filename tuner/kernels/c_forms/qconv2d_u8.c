/* Convolution over all channels with packed weights, scaled by channel: output channels inside. What
   is beyond the image is the zero point. */
uint32_t *sums = scratch(4 * output_extent_0);
for (int y = 0; y < output_extent_2; ++y)
    for (int x = 0; x < output_extent_1; ++x) {
        for (int c = 0; c < output_extent_0; ++c) sums[c] = bias[c];
        for (int i = 0; i < size; ++i)
            for (int j = 0; j < size; ++j) {
                int row = y * stride + i - before, column = x * stride + j - before;
                int inside =
                    row >= 0 && row < input_extent_2 && column >= 0 && column < input_extent_1;
                const uint8_t *pixel = input + row * input_stride_2 + column * input_stride_1;
                for (int k = 0; k < input_extent_0; ++k) {
                    int16_t value = inside ? pixel[k] : numbers[0];
                    const int8_t *tap = weights + i * weights_stride_3 + j * weights_stride_2 +
                                        k / 4 * weights_stride_1 + k % 4;
                    for (int c = 0; c < output_extent_0; ++c) sums[c] += value * tap[4 * c];
                }
            }
        uint8_t *to = output + y * output_stride_2 + x * output_stride_1;
        for (int c = 0; c < output_extent_0; ++c) {
            long long scaled = (long long)(int32_t)sums[c] * multiplier[c] + (1 << 30);
            int value = (int)clamped((scaled >> 31) + numbers[1], 0, 255);
            value = value > numbers[3] ? numbers[3] : value;
            to[c] = value < numbers[2] ? numbers[2] : value;
        }
    }

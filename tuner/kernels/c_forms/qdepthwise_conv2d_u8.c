/* 3x3 depthwise convolution, scaled by channel: channels inside. What is beyond the image is the zero
   point. */
uint32_t *sums = scratch(4 * output_extent_0);
for (int y = 0; y < output_extent_2; ++y)
    for (int x = 0; x < output_extent_1; ++x) {
        for (int c = 0; c < output_extent_0; ++c) sums[c] = bias[c];
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j) {
                int row = y * stride + i - before, column = x * stride + j - before;
                int inside =
                    row >= 0 && row < input_extent_2 && column >= 0 && column < input_extent_1;
                const uint8_t *pixel = input + row * input_stride_2 + column * input_stride_1;
                const int8_t *tap = weights + i * weights_stride_2 + j * weights_stride_1;
                if (inside)
                    for (int c = 0; c < output_extent_0; ++c)
                        sums[c] += (int16_t)pixel[c] * (int16_t)tap[c];
                else
                    for (int c = 0; c < output_extent_0; ++c) sums[c] += numbers[0] * tap[c];
            }
        uint8_t *to = output + y * output_stride_2 + x * output_stride_1;
        for (int c = 0; c < output_extent_0; ++c) {
            long long scaled = (long long)(int32_t)sums[c] * multiplier[c] + (1 << 30);
            int value = (int)clamped((scaled >> 31) + numbers[1], 0, 255);
            value = value > numbers[3] ? numbers[3] : value;
            to[c] = value < numbers[2] ? numbers[2] : value;
        }
    }

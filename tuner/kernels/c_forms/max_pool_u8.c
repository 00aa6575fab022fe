/* Maximum over windows; what is beyond the image counts as 0. */
const int before = (size > stride - 1 ? size - stride + 1 : 0) / 2;
for (int y = 0; y < output_extent_2; ++y)
    for (int x = 0; x < output_extent_1; ++x) {
        uint8_t *to = output + y * output_stride_2 + x * output_stride_1;
        for (int c = 0; c < output_extent_0; ++c) to[c] = 0;
        for (int i = 0; i < size; ++i)
            for (int j = 0; j < size; ++j) {
                int row = y * stride + i - before, column = x * stride + j - before;
                if (row < 0 || row >= input_extent_2 || column < 0 || column >= input_extent_1)
                    continue;
                const uint8_t *from = input + row * input_stride_2 + column * input_stride_1;
                for (int c = 0; c < output_extent_0; ++c) to[c] = from[c] > to[c] ? from[c] : to[c];
            }
    }

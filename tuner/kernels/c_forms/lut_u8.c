/* A table of 256 bytes applied to every element. */
for (int y = 0; y < output_extent_1; ++y)
    for (int x = 0; x < output_extent_0; ++x)
        output[y * output_stride_1 + x] = table[input[y * input_stride_1 + x]];

/* Requantized sum of two images; see tuner/kernels/add_u8.py. */
for (int y = 0; y < output_extent_1; ++y)
    for (int x = 0; x < output_extent_0; ++x) {
        int sum = (a[y * a_stride_1 + x] - zero_a) * multiplier_a +
                  (b[y * b_stride_1 + x] - zero_b) * multiplier_b;
        int scaled = ((sum + (1 << (shift - 1))) >> shift) + zero_out;
        output[y * output_stride_1 + x] = scaled < 0 ? 0 : scaled > 255 ? 255 : scaled;
    }

/* Requantized sum of two tensors; see tuner/kernels/qadd_u8.py. */
uint32_t by_a = (uint16_t)scales[0], by_b = (uint16_t)scales[1];
for (int y = 0; y < output_extent_1; ++y)
    for (int x = 0; x < output_extent_0; ++x) {
        uint32_t sum = a[y * a_stride_1 + x] * by_a + b[y * b_stride_1 + x] * by_b + scales[2];
        int value = clamped((int32_t)sum >> (scales[3] & 15), 0, 255);
        value = value > limits[1] ? limits[1] : value;
        output[y * output_stride_1 + x] = value < limits[0] ? limits[0] : value;
    }

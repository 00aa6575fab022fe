/* Luma (BT.601) of interleaved RGB. */
for (int y = 0; y < output_extent_1; ++y)
    for (int x = 0; x < output_extent_0; ++x) {
        const uint8_t *pixel = input + y * input_stride_1 + 3 * x;
        uint16_t luma = (uint16_t)(77 * pixel[0] + 150 * pixel[1] + 29 * pixel[2] + 128);
        output[y * output_stride_1 + x] = (uint8_t)(luma >> 8);
    }

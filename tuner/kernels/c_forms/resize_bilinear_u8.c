/* Bilinear resizing: rows first, each of them once, then columns. The pixels of a row are fetched
   one by one, what is made of them goes in vectors. */
enum { unit_bits = 14, weight_bits = 7, whole = 1 << weight_bits, half = whole / 2 };
const int pitch = (output_extent_0 + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES;
uint16_t *first = scratch(2 * output_extent_0), *second = scratch(2 * output_extent_0);
uint8_t *weights = scratch(output_extent_0), *resized = scratch(2 * pitch);
uint8_t *left = scratch(output_extent_0), *right = scratch(output_extent_0);
for (int x = 0; x < output_extent_0; ++x) {
    int position = x * scale_x + ((scale_x - (1 << unit_bits)) >> 1);
    int before = position >> unit_bits;
    first[x] = (uint16_t)clamped(before, 0, input_extent_0 - 1);
    second[x] = (uint16_t)clamped(before + 1, 0, input_extent_0 - 1);
    weights[x] = (uint8_t)(position >> (unit_bits - weight_bits) & (whole - 1));
}
int held_rows[2] = {-1, -1}; /* rows of the input, even and odd, that `resized` holds */
for (int y = 0; y < output_extent_1; ++y) {
    int position = y * scale_y + ((scale_y - (1 << unit_bits)) >> 1);
    const uint8_t *around[2];
    for (int step = 0; step < 2; ++step) {
        int row = clamped((position >> unit_bits) + step, 0, input_extent_1 - 1);
        uint8_t *to = resized + (row & 1) * pitch;
        if (held_rows[row & 1] != row) {
            const uint8_t *pixels = input + row * input_stride_1;
            for (int x = 0; x < output_extent_0; ++x) {
                left[x] = pixels[first[x]];
                right[x] = pixels[second[x]];
            }
            for (int x = 0; x < output_extent_0; ++x)
                to[x] = (uint8_t)((uint16_t)((whole - weights[x]) * left[x] +
                                             weights[x] * right[x] + half) >> weight_bits);
            held_rows[row & 1] = row;
        }
        around[step] = to;
    }
    uint8_t weight = (uint8_t)(position >> (unit_bits - weight_bits) & (whole - 1));
    for (int x = 0; x < output_extent_0; ++x)
        output[y * output_stride_1 + x] =
            (uint8_t)((uint16_t)((whole - weight) * around[0][x] + weight * around[1][x] + half) >>
                      weight_bits);
}

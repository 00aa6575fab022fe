/* Softmax along rows, in fixed point: exponentials are fetched one by one, the rest of a row goes in
   vectors. See tuner/kernels/softmax_u8.py. */
int16_t *exponentials = scratch(2 * output_extent_0);
for (int y = 0; y < output_extent_1; ++y) {
    const uint8_t *row = input + y * input_stride_1;
    uint8_t *to = output + y * output_stride_1;
    uint8_t largest = 0;
    for (int x = 0; x < output_extent_0; ++x) largest = row[x] > largest ? row[x] : largest;
    for (int x = 0; x < output_extent_0; ++x)
        exponentials[x] = table[(uint8_t)(largest - row[x])];
    int32_t total = 0;
    for (int x = 0; x < output_extent_0; ++x) total += exponentials[x];
    total = clamped(total, 1 << 9, (1 << 24) - 1);
    int bits = 31 - __builtin_clz((unsigned)total);
    int normal = bits > 15 ? total >> (bits - 15) : total << (15 - bits);
    int multiplier = ((1 << 30) - 1) / normal, shift = bits - 9;
    for (int x = 0; x < output_extent_0; ++x) {
        int scaled = (exponentials[x] * multiplier + (1 << 14)) >> 15;
        scaled = ((scaled >> shift) + 1) >> 1;
        to[x] = (uint8_t)clamped(scaled, 0, 255);
    }
}

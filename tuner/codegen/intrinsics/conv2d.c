const int pixels = output_extent_1 * output_extent_2;
V *quads = scratch((QUADS + 1) * VECTORS * VECTOR_BYTES);
V *words = scratch(OUTPUTS / QUAD * VECTORS * VECTOR_BYTES);
V *spare = scratch(2 * MOST_WORDS * VECTOR_BYTES);
#if SIZE > 1
/* Copied with its edges, as pixels of one word each. */
const int edge = (SIZE - 1) / 2, padded_width = rounded_up(input_extent_1 + SIZE + 2 * WORDS, WORDS);
uint32_t *padded = scratch(4 * padded_width * (input_extent_2 + SIZE) + VECTOR_BYTES);
const V blank = HVX(lvsplatw)(zero_in * 0x01010101);
for (int y = 0; y < input_extent_2 + SIZE; ++y) {
    uint32_t *row = padded + y * padded_width;
    for (int x = 0; x < padded_width; x += WORDS) *(V *)(row + x) = blank;
    if (y < edge || y - edge >= input_extent_2) continue;
    const uint8_t *from = input + (y - edge) * input_stride_2;
    for (int x = 0; x < input_extent_1; x += WORDS) {
        const V value = (V)*(const VU *)(from + QUAD * x);
        if (x + WORDS <= input_extent_1)
            *(VU *)(row + edge + x) = (VU)value;
        else
            store_first(row + edge + x, value, QUAD * (input_extent_1 - x));
    }
}
for (int y = 0; y < output_extent_2; ++y)
    for (int block = 0; block < output_extent_1; block += VECTORS * WORDS) {
        const int x = at_most(block, output_extent_1 - VECTORS * WORDS);
        for (int i = 0; i < SIZE; ++i)
            UNROLLED for (int j = 0; j < SIZE; ++j)
                UNROLLED for (int v = 0; v < VECTORS; ++v) {
                    const uint32_t *from =
                        padded + (stride * y + i) * padded_width + stride * (x + v * WORDS) + j;
                    V one = (V)*(const VU *)from;
                    if (stride == 2)
                        one = HVX(lo)(HVX(vdealvdd)((V)*(const VU *)(from + WORDS), one, -QUAD));
                    quads[(i * SIZE + j) * VECTORS + v] = one;
                }
        for (int c = 0; c < OUTPUTS; c += ROWS) tile(quads, weights, bias, c, words);
        for (int v = 0; v < VECTORS; ++v)
            from_lanes(words + v * (OUTPUTS / QUAD),
                       (V *)(output + (y * output_extent_1 + x + v * WORDS) * OUTPUTS), spare);
    }
#else
for (int block = 0; block < pixels; block += VECTORS * WORDS) {
    const int first = at_most(block, pixels - VECTORS * WORDS);
    if (STREAMS) {
        const int bytes = VECTORS * WORDS * QUAD * QUADS, next = first + 2 * VECTORS * WORDS;
        if (next + VECTORS * WORDS <= pixels)
            __builtin_HEXAGON_Y5_l2fetch((void *)(input + next * QUAD * QUADS),
                (uint64_t)VECTOR_BYTES << 32 | (uint64_t)VECTOR_BYTES << 16 | bytes / VECTOR_BYTES);
    }
    for (int v = 0; v < VECTORS; ++v)
        to_lanes((const V *)(input + (first + v * WORDS) * QUAD * QUADS), quads + v, spare);
    for (int c = 0; c < OUTPUTS; c += ROWS) tile(quads, weights, bias, c, words);
    for (int v = 0; v < VECTORS; ++v)
        from_lanes(words + v * (OUTPUTS / QUAD), (V *)(output + (first + v * WORDS) * OUTPUTS), spare);
}
#endif

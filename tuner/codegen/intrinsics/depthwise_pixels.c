const int width = input_extent_1, height = input_extent_2, out_width = output_extent_1;
const int row_bytes = width * CHANNELS, out_bytes = out_width * CHANNELS;
const struct weights prepared = {scratch(TAPS * PERIOD * VECTOR_BYTES), scratch(PERIOD * VECTOR_BYTES)};
prepare(&prepared, weights, weights_stride_2, weights_stride_1,
        scratch(TAPS * (PERIOD * WORDS + CHANNELS + 3 * VECTOR_BYTES)));
uint8_t *blank = scratch(rounded_up(row_bytes, VECTOR_BYTES) + VECTOR_BYTES);
const V zeros = HVX(lvsplatw)(zero_in * 0x01010101);
ROLLED for (int at = 0; at < row_bytes + VECTOR_BYTES; at += VECTOR_BYTES) *(V *)(blank + at) = zeros;

/* With a pixel before the first, whose quads end on a vector's boundary, and one after the last. */
const int before = rounded_up(QUADS_BYTES, VECTOR_BYTES);
uint8_t *quads = scratch(2 * before + QUAD * row_bytes + 2 * QUAD * VECTOR_BYTES);
ROLLED for (int at = 0; at < before; at += VECTOR_BYTES) *(V *)(quads + at) = zeros;
ROLLED for (int y = 0; y < output_extent_2; y += ROWS) {
    const uint8_t *rows[QUAD];
    UNROLLED for (int i = 0; i < QUAD; ++i) {
        const int row = STRIDE * y + i - 1;
        rows[i] = row >= 0 && row < height ? input + row * input_stride_2 : blank;
    }
    if (STRIDE > 1) rows[TAPS] = rows[TAPS - 1]; /* times zero */
    if (STREAMS && STRIDE * y + 2 * QUAD <= height)
        __builtin_HEXAGON_Y5_l2fetch(
            (void *)(input + (STRIDE * y + QUAD) * input_stride_2),
            (uint64_t)VECTOR_BYTES << 32 | (uint64_t)VECTOR_BYTES << 16 | 2 * row_bytes / VECTOR_BYTES);
    interleave_rows(rows, row_bytes, (V *)(quads + before));
    ROLLED for (int at = 0; at < QUADS_BYTES; at += VECTOR_BYTES)
        *(VU *)(quads + before + QUAD * row_bytes + at) = (VU)zeros;

    uint8_t *to = output + y * output_stride_2;
    const int last_row = y + 1 < output_extent_2 ? ROWS - 1 : 0;
    const uint8_t *from = quads + before - QUADS_BYTES;
    for (int x = 0; x < out_width; x += PIXELS) {
        UNROLLED for (int unit = 0; unit < TOGETHER; unit += QUAD) {
            V bytes[ROWS];
            outputs(from, &prepared, unit, at_most(TOGETHER - unit, QUAD), bytes);
            /* What lies beyond the last channel is written over by the next pixel. */
            const int left = out_bytes - x * CHANNELS - unit * WORDS;
            UNROLLED for (int r = ROWS - 1; r >= 0; --r) {
                uint8_t *at = to + at_most(r, last_row) * output_stride_2 + out_bytes - left;
                if (IS_WHOLE || left >= VECTOR_BYTES)
                    *(VU *)at = (VU)bytes[r];
                else
                    store_first(at, bytes[r], left);
            }
            if (IS_APART) __asm__ volatile("" ::: "memory"); /* else loads ahead fill registers */
        }
        from += STRIDE * PIXELS * QUADS_BYTES;
    }
}

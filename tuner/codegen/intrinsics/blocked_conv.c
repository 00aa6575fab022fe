const struct settings with = settings_of(numbers);
const int out_bytes = QUAD * OUT_PIXELS;
#if SIZE == 1
struct channels *of = scratch(sizeof(struct channels));
ROLLED for (int c = 0; c < OUTPUTS; c += ROWS) {
    prepare(of, bias + c, multiplier + c);
    pointwise(input, weights + QUAD * c, of, with, numbers[1], output + c / QUAD * out_bytes);
}
#else
struct channels *of = scratch(OUTPUTS / ROWS * sizeof(struct channels));
V *quads = scratch(QUADS * VECTORS * VECTOR_BYTES);
ROLLED for (int c = 0; c < OUTPUTS; c += ROWS) prepare(of + c / ROWS, bias + c, multiplier + c);
ROLLED for (int y = 0; y < OUT_HEIGHT; ++y) {
    const uint8_t *rows = input + QUAD * (IN_FIRST + (stride * y - 1) * IN_PITCH);
    if (stride * y + AHEAD + stride < IN_HEIGHT)
        __builtin_HEXAGON_Y5_l2fetch(
            (void *)(rows + QUAD * AHEAD * IN_PITCH),
            (uint64_t)VECTOR_BYTES << 32 | (uint64_t)VECTOR_BYTES << 16 |
                (stride * QUAD * IN_PITCH / VECTOR_BYTES + 1));
    ROLLED for (int x = 0; x < OUT_WIDTH; x += VECTORS * LANES) {
        UNROLLED for (int i = 0; i < SIZE; ++i)
            UNROLLED for (int v = 0; v < VECTORS; ++v) {
                const uint8_t *from = rows + QUAD * (i * IN_PITCH + stride * (x + v * LANES) - 1);
                V columns[SIZE];
                three_columns(from, columns);
                UNROLLED for (int j = 0; j < SIZE; ++j)
                    quads[(i * SIZE + j) * VECTORS + v] = columns[j];
            }
        ROLLED for (int c = 0; c < OUTPUTS; c += ROWS)
            tile((const uint8_t *)quads, VECTORS * VECTOR_BYTES, VECTOR_BYTES, weights + QUAD * c,
                 of + c / ROWS, with,
                 output + c / QUAD * out_bytes + QUAD * (OUT_FIRST + y * OUT_PITCH + x), out_bytes, 0);
    }
}
ROLLED for (int b = 0; b < OUTPUTS / QUAD; ++b) surround(output + b * out_bytes, OUT_IMAGE, numbers[1]);
#endif

/* ROWS channels are made for all pixels, and go through their windows at once: they never leave L2. */
const struct settings wide = settings_of(numbers), with = settings_of(depthwise_numbers);
struct channels *of = scratch(sizeof(struct channels));
uint8_t *made = scratch(ROWS * IN_PIXELS);
ROLLED for (int c = 0; c < OUTPUTS; c += ROWS) {
    prepare(of, bias + c, multiplier + c);
    pointwise(input, weights + QUAD * c, of, wide, numbers[1], made);
    ROLLED for (int r = 0; r < ROWS; r += QUAD) {
        uint8_t *block = output + (c + r) * OUT_PIXELS;
        depthwise(made + r * IN_PIXELS + QUAD * IN_FIRST,
                  (const int32_t *)(depthwise_weights + (c + r) * QUAD * TAPS), depthwise_bias + c + r,
                  depthwise_multiplier + c + r, depthwise_numbers[0], with, block + QUAD * OUT_FIRST);
        surround(block, OUT_IMAGE, depthwise_numbers[1]);
    }
}

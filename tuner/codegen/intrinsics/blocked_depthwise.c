const struct settings with = settings_of(numbers);
ROLLED for (int b = 0; b < BLOCKS; ++b) {
    uint8_t *block = output + b * QUAD * OUT_PIXELS;
    depthwise(input + QUAD * (b * IN_PIXELS + IN_FIRST),
              (const int32_t *)(weights + b * QUAD * QUAD * TAPS), bias + b * QUAD, multiplier + b * QUAD,
              numbers[0], with, block + QUAD * OUT_FIRST);
    surround(block, OUT_IMAGE, numbers[1]);
}

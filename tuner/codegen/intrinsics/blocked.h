/* Layers between images in channel blocks (tuner/kernels/blocked.py): a word is a pixel's four channels
   of a block, rows are PITCH pixels apart, and the zero point lies around them. */
enum { LANES = VECTOR_BYTES / QUAD };

struct image {
    int height, pitch, first, pixels;
};
#define IN_IMAGE ((struct image){IN_HEIGHT, IN_PITCH, IN_FIRST, IN_PIXELS})
#define OUT_IMAGE ((struct image){OUT_HEIGHT, OUT_PITCH, OUT_FIRST, OUT_PIXELS})

/* Vectors from the first pixel of a block to behind its last row. */
#define SPAN_OF(image) (rounded_up((image).pitch * (image).height, LANES) / LANES)

struct settings {
    V zero, low, high;
};

INLINE V splat_of_bytes(int byte) { return HVX(lvsplatw)(byte * 0x01010101); }

INLINE struct settings settings_of(const uint8_t *numbers) {
    return (struct settings){HVX(lvsplatw)(numbers[1] * 0x10001), splat_of_bytes(numbers[2]),
                             splat_of_bytes(numbers[3])};
}

/* u8 of the sums of a block's channels, as in channel_scale.py: those of a pixel side by side. */
INLINE V requantized_block(const V sums[QUAD], const V scales[QUAD], struct settings with) {
    V exact[QUAD];
    UNROLLED for (int i = 0; i < QUAD; ++i) exact[i] =
        HVX(vmpyowh_rnd_sacc)(HVX(vmpyewuh)(sums[i], scales[i]), sums[i], scales[i]);
    V even = HVX(vaddhsat)(HVX(vsatwh)(exact[2], exact[0]), with.zero);
    V odd = HVX(vaddhsat)(HVX(vsatwh)(exact[3], exact[1]), with.zero);
    return HVX(vmaxub)(HVX(vminub)(HVX(vsathub)(odd, even), with.high), with.low);
}

/* Everything around the image in a block becomes the zero point. */
INLINE void surround(uint8_t *block, struct image of, int zero) {
    const V blank = splat_of_bytes(zero);
    const int end = of.first + of.pitch * of.height;
    V *at = (V *)block;
    ROLLED for (int v = 0; v < of.first / LANES; ++v) at[v] = blank;
    int v = end / LANES;
    if (end % LANES) {
        at[v] = HVX(vmux)(HVX(pred_scalar2)(end % LANES * QUAD), at[v], blank);
        ++v;
    }
    ROLLED for (; v < of.pixels / LANES; ++v) at[v] = blank;
    uint32_t *column = (uint32_t *)block + of.first + of.pitch - 1;
    UNROLLED_BY(4) for (int y = 0; y < of.height; ++y) column[y * of.pitch] = zero * 0x01010101u;
}

/* Of a vector of windows of one row, from the first pixel of the first one on, the pixels in each of the
   three columns. */
INLINE void three_columns(const uint8_t *from, V columns[3]) {
    if (stride == 1) {
        UNROLLED for (int j = 0; j < 3; ++j) columns[j] = (V) * (const VU *)(from + j * QUAD);
    } else {
        const V one = (V) * (const VU *)from, two = (V) * (const VU *)(from + VECTOR_BYTES);
        const V more = (V) * (const VU *)(from + 2 * VECTOR_BYTES);
        W parted = HVX(vdealvdd)(two, one, -QUAD);
        columns[0] = HVX(lo)(parted), columns[1] = HVX(hi)(parted);
        columns[2] = HVX(valignbi)(more, HVX(lo)(parted), QUAD);
    }
}

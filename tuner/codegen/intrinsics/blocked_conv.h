/* A tile: ROWS output channels of VECTORS vectors of pixels, whose sums stay in registers. A quad is four
   channels of a vector of pixels; the four weights that go with it are a word of scalars. */
struct channels {
    V starts[ROWS], scales[ROWS];
};

INLINE void prepare(struct channels *to, const int32_t *bias, const int32_t *multiplier) {
    UNROLLED for (int r = 0; r < ROWS; ++r) {
        to->starts[r] = HVX(lvsplatw)(bias[r]);
        to->scales[r] = HVX(lvsplatw)(multiplier[r]);
    }
}

/* `quads` lie `apart` bytes from one another, `vector_apart` those of the next vector of pixels. Blocks of
   the output are `block_bytes` apart. */
INLINE void tile(const uint8_t *quads, int apart, int vector_apart, const int8_t *w,
                 const struct channels *of, struct settings with, uint8_t *to, int block_bytes,
                 int is_aligned) {
    V sums[ROWS][VECTORS];
    UNROLLED for (int r = 0; r < ROWS; ++r)
        UNROLLED for (int v = 0; v < VECTORS; ++v) sums[r][v] = of->starts[r];
    UNROLLED_BY(UNROLL) for (int q = 0; q < QUADS; ++q) {
        uint64_t pairs[ROWS / 2];
        V quad[VECTORS];
        UNROLLED for (int r = 0; r < ROWS / 2; ++r) pairs[r] = ((const uint64_t *)w)[r];
        UNROLLED for (int v = 0; v < VECTORS; ++v) quad[v] = *(const V *)(quads + v * vector_apart);
        UNROLLED for (int r = 0; r < ROWS; ++r) {
            if (FETCH && r % (L1_LINE_BYTES / QUAD) == 2)
                __builtin_prefetch(w + QUAD * r + FETCH * QUAD * OUTPUTS);
            UNROLLED for (int v = 0; v < VECTORS; ++v) sums[r][v] = HVX(vrmpybus_acc)(
                sums[r][v], quad[v], (int)(r % 2 ? pairs[r / 2] >> 32 : pairs[r / 2]));
        }
        quads += apart;
        w += QUAD * OUTPUTS;
    }
    UNROLLED for (int r = 0; r < ROWS; r += QUAD)
        UNROLLED for (int v = 0; v < VECTORS; ++v) {
            const V four[QUAD] = {sums[r][v], sums[r + 1][v], sums[r + 2][v], sums[r + 3][v]};
            const V bytes = requantized_block(four, of->scales + r, with);
            uint8_t *at = to + r / QUAD * block_bytes + v * VECTOR_BYTES;
            if (is_aligned)
                *(V *)at = bytes;
            else
                *(VU *)at = (VU)bytes;
        }
}

/* ROWS output channels of all pixels of an image as large as the input's, to blocks from `to` on. */
INLINE void pointwise(const uint8_t *input, const int8_t *w, const struct channels *of,
                      struct settings with, int zero_out, uint8_t *to) {
    const int span = SPAN_OF(IN_IMAGE), bytes = QUAD * IN_PIXELS;
    ROLLED for (int vector = 0; vector < span; vector += VECTORS) {
        const int at = QUAD * IN_FIRST + at_most(vector, span - VECTORS) * VECTOR_BYTES;
        tile(input + at, bytes, VECTOR_BYTES, w, of, with, to + at, bytes, 1);
    }
    ROLLED for (int b = 0; b < ROWS / QUAD; ++b) surround(to + b * bytes, IN_IMAGE, zero_out);
}

/* Depthwise 3x3 with channels in the lanes. A quad is a byte of each of four rows, a unit the quads of
   WORDS channels, counted through the pixels of a row. With stride 1 four rows serve two output rows,
   by the weights w0 w1 w2 0 and 0 w0 w1 w2. PIXELS are computed together: their units fill vectors of
   bytes, where one pixel's may not. Units repeat their channels after PERIOD. */
enum { TAPS = 3, ROWS = STRIDE == 1 ? 2 : 1, QUADS_BYTES = QUAD * CHANNELS };
enum { TOGETHER = (PIXELS * CHANNELS + WORDS - 1) / WORDS, IS_ALIGNED = CHANNELS % WORDS == 0 };

struct weights {
    V *taps;   /* of each unit, for each tap */
    V *starts; /* first sums of each unit */
};

/* `spare` holds rows of weights in which the channels repeat. */
INLINE void prepare(const struct weights *to, const int8_t *from, int row_stride, int stride,
                    int8_t *spare) {
    const V zeros = HVX(lvsplatw)(zero_in * 0x01010101);
    const int spare_stride = rounded_up(PERIOD * WORDS + CHANNELS, VECTOR_BYTES) + VECTOR_BYTES;
    ROLLED for (int j = 0; j < TAPS; ++j) {
        ROLLED for (int i = 0; i < TAPS; ++i)
            ROLLED for (int c = 0; c < PERIOD * WORDS; c += CHANNELS)
                ROLLED for (int at = 0; at < CHANNELS; at += VECTOR_BYTES)
                    *(VU *)(spare + i * spare_stride + c + at) =
                        *(const VU *)(from + i * row_stride + j * stride + at);
        ROLLED for (int unit = 0; unit < PERIOD; ++unit) {
            V rows[QUAD], quads[1];
            UNROLLED for (int i = 0; i < TAPS; ++i) rows[i] =
                (V) * (const VU *)(spare + i * spare_stride + unit * WORDS);
            rows[TAPS] = HVX(vd0)();
            interleave(rows, quads, 1);
            to->taps[j * PERIOD + unit] = quads[0];
            const V before = j ? to->starts[unit] : HVX(vd0)();
            to->starts[unit] = HVX(vsubw)(before, HVX(vrmpybusv)(zeros, quads[0]));
        }
    }
}

/* Units of the rows `from`, `bytes` of each, in order. */
INLINE void interleave_rows(const uint8_t *const from[QUAD], int bytes, V *to) {
    UNROLLED_BY(COPIES) for (int at = 0; at < bytes; at += VECTOR_BYTES) {
        V rows[QUAD], quads[QUAD];
        UNROLLED for (int i = 0; i < QUAD; ++i) rows[i] = (V) * (const VU *)(from[i] + at);
        interleave(rows, quads, QUAD);
        UNROLLED for (int i = 0; i < QUAD; ++i) *to++ = quads[i];
    }
}

/* Output bytes of units `first` to `first` + `units`, four at most, of those computed together. `quads`
   are those of the first pixel's first tap. */
INLINE void outputs(const uint8_t *quads, const struct weights *weights, int first, int units,
                    V bytes[ROWS]) {
    V sums[ROWS][QUAD];
    UNROLLED for (int i = 0; i < QUAD; ++i)
        UNROLLED for (int r = 0; r < ROWS; ++r)
            sums[r][i] = weights->starts[(first + at_most(i, units - 1)) % PERIOD];
    UNROLLED for (int step = 0; step < TAPS * units; ++step) {
        const int i = UNITS_FIRST ? step % units : step / TAPS;
        const int j = UNITS_FIRST ? step / units : step % TAPS;
        const int channel = (first + i) * WORDS;
        const int at = (STRIDE * (channel / CHANNELS) + j) * CHANNELS + channel % CHANNELS;
        const V value = vector_at(quads + QUAD * at, IS_ALIGNED);
        const V weight = weights->taps[j * PERIOD + (first + i) % PERIOD];
        sums[0][i] = added_product(sums[0][i], value, weight);
        if (ROWS > 1) sums[1][i] = added_product(sums[1][i], value, HVX(vaslw)(weight, 8));
    }
    UNROLLED for (int r = 0; r < ROWS; ++r)
        bytes[r] = HVX(vdealb)(HVX(vdealb)(requantized_word(sums[r])));
}

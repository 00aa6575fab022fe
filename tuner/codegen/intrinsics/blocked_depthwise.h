/* Depthwise 3x3: a word of three rows (and one that counts for nothing) of a channel of a pixel, times a
   word of scalars for each column of the window. */
enum { TAPS = 3 };

/* Three rows of blocks as quads: lane i of quads[j] has channel j of pixel i of each row. */
INLINE void transpose(const V rows[TAPS], V quads[QUAD]) {
    W low = HVX(vshufoeb)(rows[1], rows[0]), high = HVX(vshufoeb)(rows[2], rows[2]);
    W even = HVX(vshufoeh)(HVX(lo)(high), HVX(lo)(low)), odd = HVX(vshufoeh)(HVX(hi)(high), HVX(hi)(low));
    quads[0] = HVX(lo)(even), quads[1] = HVX(lo)(odd), quads[2] = HVX(hi)(even), quads[3] = HVX(hi)(odd);
}

/* The quads of a vector of pixels from `at` on, which rows run through. */
INLINE void quads_at(const uint8_t *at, V quads[QUAD]) {
    const V rows[TAPS] = {(V) * (const VU *)(at - QUAD * IN_PITCH), *(const V *)at,
                          (V) * (const VU *)(at + QUAD * IN_PITCH)};
    transpose(rows, quads);
}

INLINE void depthwise(const uint8_t *from, const int32_t *w, const int32_t *bias, const int32_t *multiplier,
                      int zero_in, struct settings with, uint8_t *to) {
    V starts[QUAD], scales[QUAD];
    UNROLLED for (int j = 0; j < QUAD; ++j) {
        starts[j] = HVX(lvsplatw)(bias[j]);
        scales[j] = HVX(lvsplatw)(multiplier[j]);
    }
#if STRIDE == 1
    V last[QUAD], now[QUAD];
    UNROLLED for (int j = 0; j < QUAD; ++j) last[j] = splat_of_bytes(zero_in);
    quads_at(from, now);
    UNROLLED_BY(COLUMNS) for (int vector = 0; vector < SPAN_OF(IN_IMAGE); ++vector) {
        V next[QUAD], sums[QUAD];
        from += VECTOR_BYTES;
        quads_at(from, next); /* of the last, nothing counts */
        UNROLLED for (int j = 0; j < QUAD; ++j) {
            V sum = HVX(vrmpybus_acc)(starts[j], now[j], w[TAPS * j + 1]);
            sum = HVX(vrmpybus_acc)(sum, HVX(vlalignbi)(now[j], last[j], QUAD), w[TAPS * j]);
            sums[j] = HVX(vrmpybus_acc)(sum, HVX(valignbi)(next[j], now[j], QUAD), w[TAPS * j + 2]);
            last[j] = now[j], now[j] = next[j];
        }
        *(V *)to = requantized_block(sums, scales, with);
        to += VECTOR_BYTES;
    }
#else
    ROLLED for (int y = 0; y < OUT_HEIGHT; ++y)
        UNROLLED_BY(COLUMNS) for (int x = 0; x < OUT_WIDTH; x += LANES) {
            V columns[TAPS][TAPS], sums[QUAD];
            UNROLLED for (int i = 0; i < TAPS; ++i)
                three_columns(from + QUAD * ((STRIDE * y + i - 1) * IN_PITCH + STRIDE * x - 1), columns[i]);
            UNROLLED for (int j = 0; j < QUAD; ++j) sums[j] = starts[j];
            UNROLLED for (int t = 0; t < TAPS; ++t) {
                const V rows[TAPS] = {columns[0][t], columns[1][t], columns[2][t]};
                V quads[QUAD];
                transpose(rows, quads);
                UNROLLED for (int j = 0; j < QUAD; ++j)
                    sums[j] = HVX(vrmpybus_acc)(sums[j], quads[j], w[TAPS * j + t]);
            }
            *(VU *)(to + QUAD * (y * OUT_PITCH + x)) = (VU)requantized_block(sums, scales, with);
        }
#endif
}

/* Convolutions with pixels in the lanes: a vector holds a quad (four channels) of WORDS pixels, and a
   word of scalars the four weights that go with it, signed as they are. A tile has ROWS output
   channels of VECTORS vectors of pixels. Pixels come with their channels side by side and leave so:
   to_lanes and from_lanes turn them. */

/* Output channels `first` to `first` + ROWS of pixels whose quads lie in `quads`, as words of four
   channels: `words` has all of a vector of pixels, then those of the next. */
INLINE void tile(const V *quads, const int8_t *weights, const int32_t *bias, int first, V *words) {
    V sums[ROWS][VECTORS], quad[VECTORS];
    const int8_t *w = weights + QUAD * first;
    UNROLLED for (int r = 0; r < ROWS; ++r)
        UNROLLED for (int v = 0; v < VECTORS; ++v) sums[r][v] = HVX(lvsplatw)(bias[first + r]);
    UNROLLED for (int v = 0; v < VECTORS; ++v) quad[v] = *quads++;
    UNROLLED_BY(UNROLL) for (int q = 0; q < QUADS; ++q) {
        uint64_t pairs[ROWS / 2];
        UNROLLED for (int r = 0; r < ROWS / 2; ++r) pairs[r] = ((const uint64_t *)w)[r];
        UNROLLED for (int r = 0; r < ROWS; ++r) {
            if (FETCH && r % (L1_LINE_BYTES / QUAD) == 2)
                __builtin_prefetch(w + QUAD * r + FETCH * QUAD * OUTPUTS);
            UNROLLED for (int v = 0; v < VECTORS; ++v) sums[r][v] = HVX(vrmpybus_acc)(
                sums[r][v], quad[v], (int)(r % 2 ? pairs[r / 2] >> 32 : pairs[r / 2]));
        }
        UNROLLED for (int v = 0; v < VECTORS; ++v) quad[v] = *quads++;
        w += QUAD * OUTPUTS;
    }
    UNROLLED for (int r = 0; r < ROWS; r += QUAD)
        UNROLLED for (int v = 0; v < VECTORS; ++v) {
            const V four[QUAD] = {sums[r][v], sums[r + 1][v], sums[r + 2][v], sums[r + 3][v]};
            words[v * (OUTPUTS / QUAD) + (first + r) / QUAD] = requantized_word(four);
        }
}

/* Pixels' words, `columns` of each in each of `lists`, come apart by their place modulo `parts`. */
INLINE void deal(const V *from, V *to, int lists, int columns, int bits, int stride) {
    const int parts = 1 << bits;
    for (int list = 0; list < lists; ++list)
        for (int group = 0; group < columns / parts; ++group) {
            V x[8];
            UNROLLED for (int i = 0; i < parts; ++i) x[i] =
                (V)((const VU *)from)[list * columns + group * parts + i];
            UNROLLED for (int bit = 0; bit < bits; ++bit)
                UNROLLED for (int i = 0; i < parts; ++i) if (!(i >> bit & 1)) {
                    W both = HVX(vdealvdd)(x[i | 1 << bit], x[i], -QUAD);
                    x[i] = HVX(lo)(both), x[i | 1 << bit] = HVX(hi)(both);
                }
            UNROLLED for (int i = 0; i < parts; ++i)
                to[((i * lists + list) * (columns / parts) + group) * stride] = x[i];
        }
}

/* The inverse of deal. */
INLINE void shuffle(const V *from, V *to, int lists, int columns, int bits) {
    const int parts = 1 << bits;
    for (int list = 0; list < lists; ++list)
        for (int group = 0; group < columns / parts; ++group) {
            V x[8];
            UNROLLED for (int i = 0; i < parts; ++i) x[i] =
                from[(i * lists + list) * (columns / parts) + group];
            UNROLLED for (int bit = bits - 1; bit >= 0; --bit)
                UNROLLED for (int i = 0; i < parts; ++i) if (!(i >> bit & 1)) {
                    W both = HVX(vshuffvdd)(x[i | 1 << bit], x[i], -QUAD);
                    x[i] = HVX(lo)(both), x[i | 1 << bit] = HVX(hi)(both);
                }
            UNROLLED for (int i = 0; i < parts; ++i)
                ((VU *)to)[list * columns + group * parts + i] = (VU)x[i];
        }
}

/* Of the words of `odd` vectors, those that `masks` have: word c of pixel p, counted through all, is
   in lane (odd p + c) modulo the lanes, a lane of its own. */
INLINE V picked(const V *from, const V *masks, int odd, int first, int step) {
    V all = HVX(vd0)();
    UNROLLED for (int i = 0; i < odd; ++i) {
        const int which = ((first + step * i) % odd + odd) % odd;
        all = HVX(vor)(all, HVX(vand)(from[i], masks[which]));
    }
    return all;
}

INLINE void part_odd(const V *from, V *to, int lists, int odd, int stride, const V *masks,
                     const V *controls) {
    for (int list = 0; list < lists; ++list)
        UNROLLED for (int c = 0; c < odd; ++c)
            to[(c * lists + list) * stride] =
                HVX(vrdelta)(picked(from + list * odd, masks, odd, c, -WORDS), controls[c]);
}

INLINE void join_odd(const V *from, V *to, int lists, int odd, const V *masks, const V *controls) {
    for (int list = 0; list < lists; ++list) {
        V x[15];
        UNROLLED for (int c = 0; c < odd; ++c)
            x[c] = HVX(vrdelta)(from[c * lists + list], controls[c]);
        UNROLLED for (int v = 0; v < odd; ++v)
            to[list * odd + v] = picked(x, masks, odd, -WORDS * v, 1);
    }
}

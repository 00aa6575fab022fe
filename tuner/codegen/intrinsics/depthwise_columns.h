/* Depthwise 3x3, VECTOR_BYTES channels at a time, walked along the rows. A quad is a byte of each of four
   rows; those of the window's columns stay in registers. With stride 1 four rows serve two output rows,
   by the weights w0 w1 w2 0 and 0 w0 w1 w2; with stride 2 each output row has its own, of which the last
   byte counts for nothing. The REST channels behind the last whole vector share one with those of SPAN
   pixels in all, or if that is 1 with channels before them, which are computed twice. */
enum { TAPS = 3, SETS = STRIDE == 1 ? 1 : ROWS, LINES = STRIDE == 1 ? QUAD : 2 * ROWS + 1 };
enum { WHOLE = CHANNELS / VECTOR_BYTES, REST = CHANNELS % VECTOR_BYTES, BLOCKS = WHOLE + (REST > 0) };

/* Four rows of bytes as quads: lane i of quads[j] has byte 4 i + j of each row. Unlike `interleave`,
   it leaves the unit that permutes alone, and sums made of them narrow to bytes in order. */
INLINE void transpose(const V rows[QUAD], V quads[QUAD]) {
    W low = HVX(vshufoeb)(rows[1], rows[0]), high = HVX(vshufoeb)(rows[3], rows[2]);
    W even = HVX(vshufoeh)(HVX(lo)(high), HVX(lo)(low)), odd = HVX(vshufoeh)(HVX(hi)(high), HVX(hi)(low));
    quads[0] = HVX(lo)(even), quads[1] = HVX(lo)(odd), quads[2] = HVX(hi)(even), quads[3] = HVX(hi)(odd);
}

/* The first channel of a block. */
INLINE int channel_of(int block) { return at_most(block * VECTOR_BYTES, CHANNELS - VECTOR_BYTES); }

/* The last bytes of a vector, the rest of a pixel, `span` times. */
INLINE V repeated(V pixel, int span) {
    V all = pixel;
    if (span > 1) UNROLLED for (int k = 0; k < span; ++k) all = HVX(vlalignb)(all, pixel, REST);
    return all;
}

/* A mask of every other `bytes` bytes, without the first ones. */
INLINE V alternate(int bytes) {
    V mask = HVX(lvsplatw)(-1);
    UNROLLED for (int at = bytes; at < VECTOR_BYTES; at += bytes) mask ^= first_bytes(at);
    return mask;
}

/* A vector of channels of one pixel, or of the rest of each of `span` pixels, which are `apart` bytes from
   one another: a load for each, with what is wanted of it where it is wanted. */
INLINE V gathered(const uint8_t *from, int apart, int span, int aligned) {
    V pixels[SPAN];
    UNROLLED for (int k = 0; k < span; ++k)
        pixels[k] = vector_at(from + k * (apart - REST), aligned);
    UNROLLED for (int half = 1; half < span; half *= 2)
        UNROLLED for (int k = 0; k < span; k += 2 * half)
            pixels[k] = HVX(vmux)(HVX(vandvrt)(alternate(half * REST), -1), pixels[k + half], pixels[k]);
    return pixels[0];
}

struct weights {
    V taps[TAPS][QUAD];
    V starts[QUAD]; /* first sums */
};

INLINE void prepare(struct weights *to, const int8_t *from, int row_stride, int stride, int span) {
    const V zeros = HVX(lvsplatw)(zero_in * 0x01010101);
    V starts[QUAD];
    UNROLLED for (int i = 0; i < QUAD; ++i) starts[i] = HVX(vd0)();
    UNROLLED for (int j = 0; j < TAPS; ++j) {
        V rows[QUAD], quads[QUAD];
        UNROLLED for (int i = 0; i < TAPS; ++i)
            rows[i] = repeated((V) * (const VU *)(from + i * row_stride + j * stride), span);
        rows[TAPS] = HVX(vd0)();
        transpose(rows, quads);
        UNROLLED for (int i = 0; i < QUAD; ++i) {
            to->taps[j][i] = quads[i];
            starts[i] = HVX(vsubw)(starts[i], HVX(vrmpybusv)(zeros, quads[i]));
        }
    }
    UNROLLED for (int i = 0; i < QUAD; ++i) to->starts[i] = starts[i];
}

struct walk {
    const uint8_t *rows[LINES];
    uint8_t *to[ROWS];
    const struct weights *with;
    int still;
};

/* Quads of `span` pixels from `x` on, STRIDE apart. */
INLINE void column(const struct walk *walk, int x, int span, V quads[SETS][QUAD]) {
    const int aligned = IS_ALIGNED && (span == 1 ? REST == 0 : STRIDE == 1);
    V rows[LINES + 1];
    UNROLLED for (int i = 0; i < LINES; ++i)
        rows[i] = gathered(walk->rows[i] + x * CHANNELS, STRIDE * CHANNELS, span, aligned);
    rows[LINES] = rows[LINES - 1];
    UNROLLED for (int r = 0; r < SETS; ++r) transpose(rows + STRIDE * r, quads[r]);
}

/* `span` output pixels from `x` on. What it writes into other channels is written over later. */
INLINE void store(uint8_t *to, int x, V bytes, int span) {
    to += x * CHANNELS;
    UNROLLED for (int k = 0; k < span; ++k, to += CHANNELS - REST)
        if (IS_ALIGNED && (span > 1 ? OVERLAP == 0 : REST == 0))
            *(V *)to = bytes;
        else
            *(VU *)to = (VU)bytes;
}

INLINE void blank(V quads[SETS][QUAD]) {
    UNROLLED for (int i = 0; i < SETS * QUAD; ++i)
        quads[i / QUAD][i % QUAD] = HVX(lvsplatw)(zero_in * 0x01010101);
}

INLINE void copied(V to[SETS][QUAD], V from[SETS][QUAD]) {
    UNROLLED for (int i = 0; i < SETS * QUAD; ++i) to[i / QUAD][i % QUAD] = from[i / QUAD][i % QUAD];
}

/* With each pixel's right (or left) neighbour in its lanes; `next` (`last`) begins (ends) with another. */
INLINE V right(V now, V next, int span) { return span == 1 ? next : HVX(valignb)(next, now, REST); }
INLINE V left(V now, V last, int span) { return span == 1 ? last : HVX(vlalignb)(now, last, REST); }

/* `span` output pixels from `x` on, of which the last may be at the edge. `last` and `now` are the quads of
   earlier columns: with stride 1 of the pixels before and of these, with stride 2 of the odd ones before. */
INLINE void outputs(struct walk *walk, int x, int span, int edge, V last[SETS][QUAD], V now[SETS][QUAD]) {
    V next[SETS][QUAD];
    if (STRIDE > 1) column(walk, STRIDE * x, span, now);
    if (edge)
        blank(next);
    else
        column(walk, STRIDE == 1 ? x + span : STRIDE * x + 1, span, next);
    const struct weights *with = walk->with =
        (const struct weights *)((const uint8_t *)walk->with + walk->still);
    V sums[ROWS][QUAD];
    UNROLLED for (int i = 0; i < QUAD; ++i)
        UNROLLED for (int r = 0; r < ROWS; ++r) sums[r][i] = with->starts[i];
    UNROLLED for (int step = 0; step < TAPS * QUAD; ++step) {
        const int i = UNITS_FIRST ? step % QUAD : step / TAPS;
        const int j = UNITS_FIRST ? step / QUAD : step % TAPS;
        const V tap = with->taps[j][i];
        UNROLLED for (int r = 0; r < ROWS; ++r) {
            const int set = at_most(r, SETS - 1);
            const V first = left(STRIDE == 1 ? now[set][i] : next[set][i], last[set][i], span);
            const V third = STRIDE == 1 ? right(now[set][i], next[set][i], span) : next[set][i];
            const V quads = j == 0 ? first : j == 1 ? now[set][i] : third;
            sums[r][i] = added_product(sums[r][i], quads, r < SETS ? tap : HVX(vaslw)(tap, 8));
        }
    }
    UNROLLED for (int r = ROWS - 1; r >= 0; --r) /* the last may be the same */
        store(walk->to[r], x, requantized_word(sums[r]), span);
    copied(last, STRIDE == 1 ? now : next);
    copied(now, next);
}

/* A block of channels of output rows. */
INLINE void walked(struct walk walk, int block, int width, int out_width, int span) {
    const int channel = span > 1 ? WHOLE * VECTOR_BYTES : channel_of(block);
    UNROLLED for (int i = 0; i < LINES; ++i) walk.rows[i] += channel;
    UNROLLED for (int r = 0; r < ROWS; ++r) walk.to[r] += channel;
    walk.with += block;
    V last[SETS][QUAD], now[SETS][QUAD];
    blank(last);
    if (STRIDE == 1) column(&walk, 0, span, now);
    const int edge = STRIDE == 1 ? span : width % STRIDE; /* pixels that may be at the edge */
    int x = 0;
    if (span == 1)
        UNROLLED_BY(UNROLL) for (; x < out_width - edge; ++x) outputs(&walk, x, 1, 0, last, now);
    else
        ROLLED for (; x <= out_width - edge - span; x += span) outputs(&walk, x, span, 0, last, now);
    if (span > 1 && OVERLAP) { /* some once more */
        x = out_width - span;
        column(&walk, STRIDE * (x - span) + 1, span, last);
        outputs(&walk, x, span, 0, last, now);
    }
    if (edge) outputs(&walk, x, span, 1, last, now);
}

/* A template at every place of an image: sums over a window of products or absolute differences of
   bytes, in words. Four taps side by side are a word of the template, and one step for 32 sums. */
enum { PLACES = VECTOR_BYTES, PHASES = 4, WORDS_ACROSS = (TAPS_ACROSS + 3) / 4 };

/* The rows of the template in words, zeros at their ends; the sum of all its taps. */
static int packed(const TAP *from, int stride, uint32_t *taps) {
    int sum = 0;
    uint8_t *tap = (uint8_t *)taps;
    for (int y = 0; y < TAPS_DOWN; ++y, from += stride)
        for (int x = 0; x < 4 * WORDS_ACROSS; ++x) {
            const TAP value = x < TAPS_ACROSS ? from[x] : 0;
            *tap++ = value, sum += value;
        }
    return sum;
}

/* A row of the image under sums `from` to `to` of a column: `taps` are those of sum 0, and of each
   that follows a row above. In lane j of phase p is the sum at pixel 4j+p. */
static inline __attribute__((always_inline)) void add_row(
    const uint8_t *image, const uint32_t *taps, const int from, const int to, V (*sums)[PHASES]) {
    const V flip = HVX(lvsplatw)(FLIP);
    const V first = *(const VU *)image ^ flip;
    /* The pixels that follow, read with the end of those before: nothing lies beyond. */
    const V last = *(const VU *)(image + TAPS_ACROSS - 1);
    const V beyond = HVX(vror)(last, PLACES + 1 - TAPS_ACROSS) ^ flip;
#pragma clang loop unroll(full)
    for (int group = 0; group < WORDS_ACROSS; ++group)
#pragma clang loop unroll(full)
        for (int phase = 0; phase < PHASES; ++phase) {
            const V pixels = HVX(valignb)(beyond, first, 4 * group + phase);
#pragma clang loop unroll(full)
            for (int n = from; n <= to; ++n) {
                const uint32_t word = taps[group - n * WORDS_ACROSS];
                sums[n][phase] = ADDED(sums[n][phase], pixels, word, group);
            }
        }
}

/* Sums of four phases, in order. */
static inline void store(const V *phases, VU *out) {
    const W even = HVX(vshuffvdd)(phases[2], phases[0], -4);
    const W odd = HVX(vshuffvdd)(phases[3], phases[1], -4);
    const W low = HVX(vshuffvdd)(HVX(lo)(odd), HVX(lo)(even), -4);
    const W high = HVX(vshuffvdd)(HVX(hi)(odd), HVX(hi)(even), -4);
    out[0] = HVX(lo)(low), out[1] = HVX(hi)(low);
    out[2] = HVX(lo)(high), out[3] = HVX(hi)(high);
}

/* The sums of a vector of pixels in HELD rows. Rows of the image in the middle are under all. */
static void column(
    const uint8_t *restrict image, int stride, const uint32_t *restrict taps, int before,
    uint32_t *restrict out, int out_stride) {
    V sums[HELD][PHASES];
    for (int n = 0; n < HELD; ++n)
        for (int phase = 0; phase < PHASES; ++phase) sums[n][phase] = HVX(lvsplatw)(before);
#pragma clang loop unroll(full)
    for (int y = 0; y < HELD - 1; ++y)
        add_row(image + y * stride, taps + y * WORDS_ACROSS, 0, y, sums);
#pragma clang loop unroll(disable)
    for (int y = HELD - 1; y < TAPS_DOWN; ++y)
        add_row(image + y * stride, taps + y * WORDS_ACROSS, 0, HELD - 1, sums);
#pragma clang loop unroll(full)
    for (int n = 1; n < HELD; ++n) {
        const int y = TAPS_DOWN - 1 + n;
        add_row(image + y * stride, taps + y * WORDS_ACROSS, n, HELD - 1, sums);
    }
    for (int n = 0; n < HELD; ++n) store(sums[n], (VU *)(out + n * out_stride));
}

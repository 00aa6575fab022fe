/* Blocks of one image against another image at every shift of some: sums of absolute differences or
   products of bytes, in words. A vector is blocks side by side, each of GROUP words. */
enum { GROUP = BLOCK_ACROSS / 4, IN_VECTOR = VECTOR_BYTES / BLOCK_ACROSS };

/* A row of the blocks, at `count` shifts one after the other. Nothing beyond the last is read. */
static inline __attribute__((always_inline)) void add_shifted(
    const uint8_t *own, const uint8_t *other, const int count, V *sums) {
    const V pixels = *(const VU *)own;
    const V first = *(const VU *)other, last = *(const VU *)(other + count - 1);
    const V beyond = HVX(vror)(last, VECTOR_BYTES + 1 - count);
#pragma clang loop unroll(full)
    for (int n = 0; n < count; ++n)
        sums[n] = ADDED(sums[n], pixels, HVX(valignb)(beyond, first, n));
}

/* Adds up the words of each block, of GROUP sums: they exchange words until each has one. */
static inline __attribute__((always_inline)) V of_blocks(const V *sums) {
    V some[GROUP];
    for (int n = 0; n < GROUP; ++n) some[n] = sums[n];
#pragma clang loop unroll(full)
    for (int step = 1; step < GROUP; step *= 2)
#pragma clang loop unroll(full)
        for (int n = 0; n < GROUP; n += 2 * step) {
            const W both = HVX(vshuffvdd)(some[n + step], some[n], 4 * step);
            some[n] = HVX(lo)(both) + HVX(hi)(both);
        }
    return some[0];
}

/* The sums of a vector of blocks at `count` shifts, stored word by word: at shifts of any step. */
static inline __attribute__((always_inline)) void at_shifts(
    const uint8_t *restrict own, int own_stride, const uint8_t *restrict other, int other_stride,
    uint32_t *restrict out, int block_step, int shift_step, const int count) {
    V sums[TOGETHER + GROUP], kept[TOGETHER / GROUP + 1];
    for (int n = 0; n < TOGETHER + GROUP; ++n) sums[n] = (V){0};
#pragma clang loop unroll(disable)
    for (int y = 0; y < BLOCK_DOWN; y += ROWS_UNROLLED)
#pragma clang loop unroll(full)
        for (int row = y; row < y + ROWS_UNROLLED; ++row)
            add_shifted(own + row * own_stride, other + row * other_stride, count, sums);
#pragma clang loop unroll(full)
    for (int n = 0; n < count; n += GROUP) kept[n / GROUP] = of_blocks(sums + n);
    const uint32_t *words = (const uint32_t *)kept;
#pragma clang loop unroll(disable)
    for (int block = 0; block < IN_VECTOR; ++block, words += GROUP, out += block_step)
#pragma clang loop unroll(full)
        for (int n = 0; n < count; ++n)
            out[n * shift_step] = words[n / GROUP * (VECTOR_BYTES / 4) + n % GROUP];
}

/* The same at all shifts across. Where their number is not known (SHIFTS is 0) the last overlap. */
static __attribute__((noinline)) void blocks(
    const uint8_t *restrict own, int own_stride, const uint8_t *restrict other, int other_stride,
    uint32_t *restrict out, int shifts, int block_step, int shift_step) {
    enum { REST = SHIFTS % TOGETHER, BEFORE = SHIFTS - REST };
    for (int n = 0; n < (SHIFTS ? BEFORE : shifts); n += TOGETHER) {
        const int at = at_most(n, shifts - TOGETHER);
        at_shifts(
            own, own_stride, other + at, other_stride, out + at * shift_step, block_step,
            shift_step, TOGETHER);
    }
    if (REST)
        at_shifts(
            own, own_stride, other + BEFORE, other_stride, out + BEFORE * shift_step, block_step,
            shift_step, REST);
}

/* Transforms of square blocks of halfwords. A lane is a block, so that sums over its elements are of
   whole vectors: SIDE vectors of rows, from anywhere, become SIDE vectors of one column each. */
enum { LANES = VECTOR_BYTES / 2 };

/* The number of a vector, and that of a lane among SIDE, change places. */
static inline __attribute__((always_inline)) void exchange(V *some) {
#pragma clang loop unroll(full)
    for (int bit = 1; bit < SIDE; bit *= 2)
#pragma clang loop unroll(full)
        for (int n = 0; n < SIDE; ++n)
            if (!(n & bit)) {
                const W both = HVX(vshuffvdd)(some[n + bit], some[n], 2 * bit);
                some[n] = HVX(lo)(both), some[n + bit] = HVX(hi)(both);
            }
}

/* Rows of blocks side by side become blocks, of which one or several are a vector, or several
   vectors are one: the number of a row enters the lanes above those of a block's columns. */
static inline __attribute__((always_inline)) void gather_blocks(V *rows) {
#pragma clang loop unroll(full)
    for (int bit = ENTERING / 2; bit > 0; bit /= 2)
#pragma clang loop unroll(full)
        for (int n = 0; n < SIDE; ++n)
            if (!(n & bit)) {
                const W both = HVX(vshuffvdd)(rows[n + bit], rows[n], -2 * SIDE);
                rows[n] = HVX(lo)(both), rows[n + bit] = HVX(hi)(both);
            }
}

/* Stores what a row of the output has room for. */
static inline __attribute__((always_inline)) void put(V own, uint16_t *to, int room) {
    if (room >= LANES) {
        *(VU *)to = own;
        return;
    }
    for (int n = 0; n < room; ++n) to[n] = ((const uint16_t *)&own)[n];
}

static void transform(
    const uint16_t *restrict in, int stride, uint16_t *restrict out, int out_stride, int out_down,
    int width, int height, V *restrict tile, const WORD *restrict words) {
    int x = 0, y = 0, more = 1;
    const int end = (width + SIDE - 1) / SIDE * SIDE;
    while (more) {
        /* The last vector of a row begins where it ends with it, and the last of all repeats. */
        const uint16_t *from[SIDE];
        uint16_t *to[SIDE];
        int across[SIDE], down[SIDE];
        for (int n = 0; n < SIDE; ++n) {
            const int at = at_most(x, end - LANES);
            from[n] = in + at, to[n] = out + at * OUT_STEP;
            across[n] = width - at, down[n] = height - y;
            if (x + LANES < end)
                x += LANES;
            else if (y + SIDE < height)
                x = 0, y += SIDE, in += SIDE * stride, out += out_down;
            else
                more = 0;
        }
        V some[SIDE];
#pragma clang loop unroll(disable)
        for (int row = 0; row < SIDE; ++row) {
#pragma clang loop unroll(full)
            for (int n = 0; n < SIDE; ++n) some[n] = *(const VU *)(from[n] + row * stride);
            exchange(some);
#pragma clang loop unroll(full)
            for (int n = 0; n < SIDE; ++n) tile[row * SIDE + n] = some[n];
        }
        PASSES(tile, words);
#pragma clang loop unroll(disable)
        for (int row = 0; row < SIDE; ++row) {
#pragma clang loop unroll(full)
            for (int n = 0; n < SIDE; ++n) some[n] = tile[row * SIDE + n];
            exchange(some);
#pragma clang loop unroll(full)
            for (int n = 0; n < SIDE; ++n)
                if (ENTERING)
                    tile[row * SIDE + n] = some[n];
                else if (!HAS_PARTS)
                    *(VU *)(to[n] + row * out_stride) = some[n];
                else if (row < down[n])
                    put(some[n], to[n] + row * out_stride, across[n]);
        }
        if (!ENTERING) continue;
#pragma clang loop unroll(disable)
        for (int n = 0; n < SIDE; ++n) {
#pragma clang loop unroll(full)
            for (int row = 0; row < SIDE; ++row) some[row] = tile[row * SIDE + n];
            gather_blocks(some);
#pragma clang loop unroll(full)
            for (int one = 0; one < SIDE; ++one) {
                const int place = one % (ENTERING | !ENTERING) * (SIDE / (ENTERING | !ENTERING));
                *(VU *)(to[n] + (place + one / (ENTERING | !ENTERING)) * LANES) = some[one];
            }
        }
    }
}

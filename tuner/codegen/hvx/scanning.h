/* Running sums of bytes, in words: along rows where it is ACROSS, then down columns where DOWN. */
enum { PIXELS = VECTOR_BYTES, PARTS = 4 };

static const uint8_t lanes_of_last[] __attribute__((aligned(VECTOR_BYTES))) = {LANES_OF_LAST};

#define TO_LAST(each) each(4) each(8) each(16) each(32) each(64)

/* The words of a vector of bytes, in order. */
static inline void widened(V bytes, V *words) {
    const W halves = HVX(vunpackub)(bytes);
    const W low = HVX(vunpackuh)(HVX(lo)(halves)), high = HVX(vunpackuh)(HVX(hi)(halves));
    words[0] = HVX(lo)(low), words[1] = HVX(hi)(low);
    words[2] = HVX(lo)(high), words[3] = HVX(hi)(high);
}

/* The sums of all bytes up to each, in order; `before`, in all lanes, is that of what comes before,
   and becomes that of all. Sums of four are scanned in five steps; products with one, two and three
   ones lead from those before to those between. */
static inline void scanned(V bytes, V *before, V *words) {
    const V none = {0}, fours = HVX(vrmpyub)(bytes, 0x01010101);
    V up_to = fours;
#define STEP(size) up_to += HVX(vlalignb)(up_to, none, size);
    TO_LAST(STEP)
    up_to += *before;
    const V ahead = up_to - fours;
    const V one = HVX(vrmpyub_acc)(ahead, bytes, 0x1), two = HVX(vrmpyub_acc)(ahead, bytes, 0x101);
    const V three = HVX(vrmpyub_acc)(ahead, bytes, 0x10101);
    *before = HVX(vdelta)(up_to, *(const V *)lanes_of_last);
    const W odd = HVX(vshuffvdd)(three, one, -4), even = HVX(vshuffvdd)(up_to, two, -4);
    const W low = HVX(vshuffvdd)(HVX(lo)(even), HVX(lo)(odd), -4);
    const W high = HVX(vshuffvdd)(HVX(hi)(even), HVX(hi)(odd), -4);
    words[0] = HVX(lo)(low), words[1] = HVX(hi)(low);
    words[2] = HVX(lo)(high), words[3] = HVX(hi)(high);
}

/* The sum of the first bytes of a vector, fewer than all, in all lanes. */
static inline V sum_of_first(V bytes, int count) {
    const V none = {0};
    V sum = HVX(vrmpyub)(HVX(vlalignb)(bytes, none, PIXELS - count), 0x01010101);
#define TURN(size) sum += HVX(vror)(sum, size);
    TO_LAST(TURN)
    return sum;
}

/* A vector's pixels of some rows, of which `above` are the sums above the first. */
static inline __attribute__((always_inline)) void columns(
    const int rows, const uint8_t *restrict in, int in_stride, const uint32_t *restrict above,
    uint32_t *restrict out, int out_stride, V *before) {
    V sums[PARTS];
    if (DOWN)
        for (int n = 0; n < PARTS; ++n) sums[n] = ((const P *)above)[n];
    for (int y = 0; y < rows; ++y) {
        V words[PARTS];
        const V bytes = *(const P *)(in + y * in_stride);
        if (ACROSS) scanned(bytes, before + y, words);
        else widened(bytes, words);
        for (int n = 0; n < PARTS; ++n) {
            if (DOWN) words[n] = sums[n] += words[n];
            ((P *)(out + y * out_stride))[n] = words[n];
        }
    }
}

/* Some rows. What is no whole vector comes first, and the next vector begins behind it. */
#define ROWS(name, rows)                                                                           \
    static __attribute__((noinline)) void name(                                                    \
        const uint8_t *restrict in, int in_stride, const uint32_t *restrict above,                 \
        uint32_t *restrict out, int out_stride, int width) {                                       \
        V before[rows] = {0};                                                                      \
        const int first = width % PIXELS;                                                          \
        if (first) {                                                                               \
            columns(rows, in, in_stride, above, out, out_stride, before);                          \
            if (ACROSS)                                                                            \
                for (int y = 0; y < rows; ++y)                                                     \
                    before[y] = sum_of_first(*(const P *)(in + y * in_stride), first);             \
        }                                                                                          \
        for (int x = first; x < width; x += PIXELS)                                                \
            columns(rows, in + x, in_stride, above + x, out + x, out_stride, before);              \
    }

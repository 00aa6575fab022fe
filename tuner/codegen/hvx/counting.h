/* How often each byte occurs. `vhist` has all 32 registers for it: of 16 bytes, a lane, it adds
   those of value v to the halfword numbered v modulo 8 of that lane of register v / 8. */
enum {
    REGISTERS = 32,
    LANES = 8,
    MOST = 4095,       /* vectors before a halfword may overflow: 16 bytes of each may be alike */
    MOST_COPIED = 512, /* vectors that are copied at once */
};

#define ALL(each)                                                                                \
    each(0, 1, 2, 3) each(4, 5, 6, 7) each(8, 9, 10, 11) each(12, 13, 14, 15)                    \
    each(16, 17, 18, 19) each(20, 21, 22, 23) each(24, 25, 26, 27) each(28, 29, 30, 31)
#define ZERO(n) "v" #n " = vxor(v" #n ",v" #n ")"
#define ZEROS(a, b, c, d) "{ " ZERO(a) "; " ZERO(b) "; " ZERO(c) "; " ZERO(d) " }\n"
#define STORE(n) "vmem(%[bins]++#1) = v" #n "\n"
#define STORES(a, b, c, d) STORE(a) STORE(b) STORE(c) STORE(d)
#define CLOBBERED(a, b, c, d) "v" #a, "v" #b, "v" #c, "v" #d,

/* The bytes of some rows on vector boundaries: of each all of `vectors`, and of one more those
   before `last`, which is not 0. */
static __attribute__((noinline)) void histogram(
    const uint8_t *row, int rows, int stride, int vectors, int last, V *bins) {
    const uint8_t *at;
    __asm__ volatile(
        ALL(ZEROS)
        "{ q0 = vsetq2(%[last]); p0 = cmp.eq(%[vectors],#0); loop1(1f,%[rows]) }\n"
        "1: { %[at] = %[row]; loop0(2f,%[vectors]); %[row] = add(%[row],%[stride]) }\n"
        "if (p0) jump:nt 3f\n"
        "2: { v0.tmp = vmem(%[at]++#1); vhist }:endloop0\n"
        "3: { v0.tmp = vmem(%[at]+#0); vhist(q0) }:endloop1\n"
        ALL(STORES)
        : [row] "+r"(row), [at] "=&r"(at), [bins] "+r"(bins)
        : [rows] "r"(rows), [stride] "r"(stride), [vectors] "r"(vectors), [last] "r"(last)
        : ALL(CLOBBERED) "memory", "p0", "q0", "lc0", "sa0", "lc1", "sa1");
}

static inline V merged(V one, V other, int lanes) {
    const W both = HVX(vshuffvdd)(other, one, lanes * (VECTOR_BYTES / LANES));
    return HVX(lo)(both) + HVX(hi)(both);
}

/* Adds up the lanes, eight registers at a time: these exchange lanes until each has one of its own.
   `vzh` takes even and odd halfwords apart. */
static __attribute__((noinline)) void add_up(const V *bins, V *counts) {
    for (int part = 0; part < REGISTERS; part += LANES) {
        V even[LANES], odd[LANES];
        for (int n = 0; n < LANES; ++n) {
            const W wide = HVX(vzh)(bins[part + n]);
            even[n] = HVX(lo)(wide);
            odd[n] = HVX(hi)(wide);
        }
        for (int half = LANES / 2; half; half /= 2)
            for (int n = 0; n < half; ++n) {
                even[n] = merged(even[n], even[n + half], half);
                odd[n] = merged(odd[n], odd[n + half], half);
            }
        const W ordered = HVX(vshuffvdd)(odd[0], even[0], -4);
        *counts++ += HVX(lo)(ordered);
        *counts++ += HVX(hi)(ordered);
    }
}

/* Rows of a vector or more, onto vector boundaries. */
static __attribute__((noinline)) void copy(
    const uint8_t *restrict in, int rows, int stride, int width, uint8_t *restrict out) {
    const int size = VECTOR_BYTES, last = width - size;
    for (; rows; --rows, in += stride, out += (width + size - 1) / size * size) {
        for (int x = 0; x <= last; x += size) *(V *)(out + x) = *(const VU *)(in + x);
        *(VU *)(out + last) = *(const VU *)(in + last);
    }
}

/* Adds the bytes of an image to `counts`. Rows are on vector boundaries, and one alone or of whole
   vectors, unless there is memory where they are `copied`. Nothing beyond a row is read. */
static void count(
    const uint8_t *in, int width, int rows, int stride, V *bins, uint8_t *copied, uint32_t *counts) {
    const int size = VECTOR_BYTES, most = copied ? MOST_COPIED : MOST;
    const int whole = rows == 1 ? width / size * size : width;
    int x = 0;
    while (whole - x >= size) {
        const int n = at_most(whole - x, most * size), vectors = (n - 1) / size;
        const int step = most / (vectors + 1), apart = copied ? (vectors + 1) * size : stride;
        for (int y = 0; y < rows; y += step) {
            const uint8_t *from = in + y * stride + x;
            const int some = at_most(rows - y, step);
            if (copied) copy(from, some, stride, n, copied);
            histogram(copied ? copied : from, some, apart, vectors, n - vectors * size, bins);
            add_up(bins, (V *)counts);
        }
        x += n;
    }
    for (int y = 0; y < rows; ++y)
        for (int left = x; left < width; ++left) ++counts[in[y * stride + left]];
}

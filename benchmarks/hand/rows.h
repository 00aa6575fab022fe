/* Shared by the filters here: vectors, and what lies beyond the left and right edge. Rows are whole,
   aligned vectors; a strip is WIDE of them, which the benchmark chooses. Operations: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44. */
typedef int V __attribute__((vector_size(128), aligned(128)));
typedef int W __attribute__((vector_size(256), aligned(128)));
#define HVX(name) __builtin_HEXAGON_V6_##name##_128B
#define AT(place) (*(const V *)(place))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 128 };

/* Lane i holds i: vdelta by it repeats lane 0, by its complement the last lane. */
#define LANES_16(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10, \
                    n + 11, n + 12, n + 13, n + 14, n + 15
static const uint8_t lanes[128] __attribute__((aligned(128))) = {
    LANES_16(0), LANES_16(16), LANES_16(32), LANES_16(48),
    LANES_16(64), LANES_16(80), LANES_16(96), LANES_16(112)};

/* Pixels of a row one to the left, in place and one to the right. */
typedef struct {
    V left[WIDE], here[WIDE], right[WIDE];
} Row;

INLINE Row row_of(const uint8_t *p, int first, int last) {
    Row row;
    V index = AT(lanes), from_last = HVX(vxor)(index, HVX(lvsplatw)(0x7f7f7f7f));
    for (int i = 0; i < WIDE; ++i) row.here[i] = AT(p + LANES * i);
    V before = first ? HVX(vdelta)(row.here[0], index) : AT(p - LANES);
    V after = last ? HVX(vdelta)(row.here[WIDE - 1], from_last) : AT(p + WIDE * LANES);
    for (int i = 0; i < WIDE; ++i) {
        row.left[i] = HVX(vlalignbi)(row.here[i], i ? row.here[i - 1] : before, 1);
        row.right[i] = HVX(valignbi)(i + 1 < WIDE ? row.here[i + 1] : after, row.here[i], 1);
    }
    return row;
}

/* strip(in, in_stride, out, out_stride, height, first, last) goes down WIDE vectors of
   columns. The width is a multiple of that, and at least twice as much. */
#define FOR_EACH_STRIP(strip)                                                               \
    static void filter(const uint8_t *restrict in, int in_stride, uint8_t *restrict out,    \
                       int out_stride, int width, int height) {                             \
        strip(in, in_stride, out, out_stride, height, 1, 0);                                \
        for (int x = WIDE * LANES; x < width - WIDE * LANES; x += WIDE * LANES)                      \
            strip(in + x, in_stride, out + x, out_stride, height, 0, 0);                    \
        int x = width - WIDE * LANES;                                                          \
        strip(in + x, in_stride, out + x, out_stride, height, 0, 1);                        \
    }

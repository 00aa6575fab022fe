/* Shared by the code here: vectors. WIDE of them are handled at once, which the benchmark chooses.
   Operations: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44. */
typedef int V __attribute__((vector_size(128), aligned(128)));
typedef int W __attribute__((vector_size(256), aligned(128)));
#define HVX(name) __builtin_HEXAGON_V6_##name##_128B
#define AT(place) (*(const V *)(place))
#define INLINE static inline __attribute__((always_inline))
#define EVERY(i) for (int i = 0; i < WIDE; ++i)
#define WORD(byte) ((byte) * 0x01010101)

enum { LANES = 128 };

#define LANES_16(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10, \
                    n + 11, n + 12, n + 13, n + 14, n + 15
/* Lane i holds i. */
static const uint8_t lanes[128] __attribute__((aligned(128))) = {
    LANES_16(0), LANES_16(16), LANES_16(32), LANES_16(48),
    LANES_16(64), LANES_16(80), LANES_16(96), LANES_16(112)};

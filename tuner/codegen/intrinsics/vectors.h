/* Vectors and what all forms do with them. */
typedef int V __attribute__((vector_size(VECTOR_BYTES), aligned(VECTOR_BYTES)));
typedef int VU __attribute__((vector_size(VECTOR_BYTES), aligned(1)));
typedef int W __attribute__((vector_size(2 * VECTOR_BYTES), aligned(VECTOR_BYTES)));
#define HVX(name) __builtin_HEXAGON_V6_##name##_128B
#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED_BY(count) PRAGMA(clang loop unroll_count(count))
enum { WORDS = VECTOR_BYTES / 4, QUAD = 4, L1_LINE_BYTES = 32 };

#define rounded_up(value, multiple) (((value) + (multiple) - 1) / (multiple) * (multiple))
#define at_most(value, most) ((value) < (most) ? (value) : (most))

INLINE V vector_at(const void *from, int aligned) {
    return aligned ? *(const V *)from : (V) * (const VU *)from;
}

/* Four rows of bytes as quads, of which the first `count` vectors are wanted: each lane of 32 bits has
   a byte of each row. */
INLINE void interleave(const V rows[QUAD], V quads[], int count) {
    W low = HVX(vshuffvdd)(rows[1], rows[0], -1), high = HVX(vshuffvdd)(rows[3], rows[2], -1);
    W first = HVX(vshuffvdd)(HVX(lo)(high), HVX(lo)(low), -2);
    W last = HVX(vshuffvdd)(HVX(hi)(high), HVX(hi)(low), -2);
    const V all[QUAD] = {HVX(lo)(first), HVX(hi)(first), HVX(lo)(last), HVX(hi)(last)};
    UNROLLED for (int i = 0; i < count; ++i) quads[i] = all[i];
}

/* Copies of bytes from one layout to another, in the widest words that both have. */
#ifndef HVXTUNE_COPY_H
#define HVXTUNE_COPY_H

#include <stdint.h>

enum { HVXTUNE_LOOPS = 6 };

/* `loops` loops, two at least, of `extent` over both strides (bytes), the innermost last, each of
 * a word with the bits in `flip` changed. Four are read before they are written: a load waits. */
#define HVXTUNE_READ(word, i)                                                                      \
    word w##i;                                                                                     \
    __builtin_memcpy(&w##i, __builtin_assume_aligned(a + i * step, sizeof w##i), sizeof w##i)
#define HVXTUNE_WRITE(word, i)                                                                     \
    w##i ^= flips;                                                                                 \
    __builtin_memcpy(__builtin_assume_aligned(b + i * to_step, sizeof w##i), &w##i, sizeof w##i)
#define HVXTUNE_COPY_WORDS(word, name)                                                             \
    static inline void name(const uint8_t *from, uint8_t *to, uint8_t flip, int loops,             \
                            const int32_t *extent, const int32_t *from_stride,                     \
                            const int32_t *to_stride) {                                            \
        const word flips = (word)(flip * (word)0x0101010101010101u);                               \
        const int inner = loops - 1, outer = loops - 2;                                            \
        const int32_t count = extent[inner], step = from_stride[inner], to_step = to_stride[inner];\
        int32_t at[HVXTUNE_LOOPS] = {0};                                                           \
        for (int d = 0; d >= 0;) {                                                                 \
            const uint8_t *row = from;                                                             \
            uint8_t *to_row = to;                                                                  \
            for (int32_t j = 0; j < extent[outer]; j++) {                                          \
                const uint8_t *a = row;                                                            \
                uint8_t *b = to_row;                                                               \
                for (int32_t i = count / 4; i > 0; i--, a += 4 * step, b += 4 * to_step) {         \
                    HVXTUNE_READ(word, 0);                                                         \
                    HVXTUNE_READ(word, 1);                                                         \
                    HVXTUNE_READ(word, 2);                                                         \
                    HVXTUNE_READ(word, 3);                                                         \
                    HVXTUNE_WRITE(word, 0);                                                        \
                    HVXTUNE_WRITE(word, 1);                                                        \
                    HVXTUNE_WRITE(word, 2);                                                        \
                    HVXTUNE_WRITE(word, 3);                                                        \
                }                                                                                  \
                for (int32_t i = count % 4; i > 0; i--, a += step, b += to_step) {                 \
                    HVXTUNE_READ(word, 0);                                                         \
                    HVXTUNE_WRITE(word, 0);                                                        \
                }                                                                                  \
                row += from_stride[outer];                                                         \
                to_row += to_stride[outer];                                                        \
            }                                                                                      \
            for (d = outer - 1; d >= 0; d--) { /* to the next rows, as an odometer */              \
                from += from_stride[d];                                                            \
                to += to_stride[d];                                                                \
                if (++at[d] < extent[d])                                                           \
                    break;                                                                         \
                from -= extent[d] * from_stride[d];                                                \
                to -= extent[d] * to_stride[d];                                                    \
                at[d] = 0;                                                                         \
            }                                                                                      \
        }                                                                                          \
    }
HVXTUNE_COPY_WORDS(uint8_t, hvxtune_copy_8)
HVXTUNE_COPY_WORDS(uint16_t, hvxtune_copy_16)
HVXTUNE_COPY_WORDS(uint32_t, hvxtune_copy_32)
HVXTUNE_COPY_WORDS(uint64_t, hvxtune_copy_64)

/* Bytes from one layout to another, each with the bits in `flip` changed, in `loops` loops of
 * `extent` over both strides, the innermost last. What lies between them stays as it is. */
static inline void hvxtune_copy(const uint8_t *from, uint8_t *to, uint8_t flip, int loops,
                                const int32_t *extent, const int32_t *from_stride,
                                const int32_t *to_stride) {
    int32_t words[HVXTUNE_LOOPS + 1], steps[HVXTUNE_LOOPS + 1], to_steps[HVXTUNE_LOOPS + 1];
    const int inner = loops - 1;
    uintptr_t odd = (uintptr_t)from | (uintptr_t)to | (uintptr_t)extent[inner];
    words[0] = 1, steps[0] = 0, to_steps[0] = 0; /* two loops at least */
    for (int d = 0; d < loops; d++) {
        words[d + 1] = extent[d], steps[d + 1] = from_stride[d], to_steps[d + 1] = to_stride[d];
        if (d < inner)
            odd |= (uintptr_t)from_stride[d] | (uintptr_t)to_stride[d];
    }
    if (from_stride[inner] != 1 || to_stride[inner] != 1)
        odd = 1;
    const int32_t width = odd & 1 ? 1 : odd & 2 ? 2 : odd & 4 ? 4 : 8;
    words[loops] /= width, steps[loops] *= width, to_steps[loops] *= width;
    /* A row of one word is no loop. */
    const int all = words[loops] == 1 && loops > 1 ? loops : loops + 1;
    const int first = all == HVXTUNE_LOOPS + 1; /* the one that was added */
    const int32_t *w = words + first, *s = steps + first, *t = to_steps + first;
    if (width == 8)
        hvxtune_copy_64(from, to, flip, all - first, w, s, t);
    else if (width == 4)
        hvxtune_copy_32(from, to, flip, all - first, w, s, t);
    else if (width == 2)
        hvxtune_copy_16(from, to, flip, all - first, w, s, t);
    else
        hvxtune_copy_8(from, to, flip, all - first, w, s, t);
}

#endif

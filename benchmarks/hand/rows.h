/* Shared by the filters here: what lies beyond the left and right edge. Rows are whole, aligned
   vectors; a strip is WIDE of them. */
#include "vectors.h"

/* The pixel at the edge again: lane 0, or the last. */
#define BEFORE(vector) HVX(vdelta)(vector, AT(lanes))
#define AFTER(vector) HVX(vdelta)(vector, HVX(vxor)(AT(lanes), HVX(lvsplatw)(WORD(0x7f))))

/* Pixels of a row one to the left, in place and one to the right. */
typedef struct {
    V left[WIDE], here[WIDE], right[WIDE];
} Row;

INLINE Row row_of(const uint8_t *p, int first, int last) {
    Row row;
    for (int i = 0; i < WIDE; ++i) row.here[i] = AT(p + LANES * i);
    V before = first ? BEFORE(row.here[0]) : AT(p - LANES);
    V after = last ? AFTER(row.here[WIDE - 1]) : AT(p + WIDE * LANES);
    for (int i = 0; i < WIDE; ++i) {
        row.left[i] = HVX(vlalignbi)(row.here[i], i ? row.here[i - 1] : before, 1);
        row.right[i] = HVX(valignbi)(i + 1 < WIDE ? row.here[i + 1] : after, row.here[i], 1);
    }
    return row;
}

/* strip(in, in_stride, out, out_stride, height, first, last) goes down WIDE vectors of
   columns. The width is a multiple of that, and at least twice as much. */
#define FOR_EACH_STRIP(strip)                                                            \
    static void filter(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, \
                       int out_stride, int width, int height) {                          \
        strip(in, in_stride, out, out_stride, height, 1, 0);                             \
        for (int x = WIDE * LANES; x < width - WIDE * LANES; x += WIDE * LANES)          \
            strip(in + x, in_stride, out + x, out_stride, height, 0, 0);                 \
        int x = width - WIDE * LANES;                                                    \
        strip(in + x, in_stride, out + x, out_stride, height, 0, 1);                     \
    }

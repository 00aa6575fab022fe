/* Matrix product of bytes: sums of four rows and four vectors of columns in registers, to which vrmpy
   adds four products at once. B is packed first: four rows lie interleaved. All extents are multiples
   of those. */
#include "vectors.h"

enum { QUAD = 4, ROWS = 4, VECTORS = 4 };

/* Four rows of 128 columns as vectors of 32 columns, four bytes each. */
INLINE void interleave(const uint8_t *b, int stride, V *packed) {
    W front = HVX(vshuffvdd)(AT(b + stride), AT(b), -1);
    W back = HVX(vshuffvdd)(AT(b + 3 * stride), AT(b + 2 * stride), -1);
    W low = HVX(vshuffvdd)(HVX(lo)(back), HVX(lo)(front), -2);
    W high = HVX(vshuffvdd)(HVX(hi)(back), HVX(hi)(front), -2);
    packed[0] = HVX(lo)(low), packed[1] = HVX(hi)(low);
    packed[2] = HVX(lo)(high), packed[3] = HVX(hi)(high);
}

INLINE void block(const uint8_t *restrict a, int k, const V *restrict packed, uint32_t *restrict c,
                  int n) {
    V sums[ROWS][VECTORS];
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < VECTORS; ++j) sums[i][j] = HVX(vd0)();
    for (int quad = 0; quad < k; quad += QUAD, packed += VECTORS)
        for (int i = 0; i < ROWS; ++i) {
            int four = *(const int *)(a + i * k + quad);
            for (int j = 0; j < VECTORS; ++j)
                sums[i][j] = HVX(vrmpyub_acc)(sums[i][j], packed[j], four);
        }
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < VECTORS; ++j) ((V *)(c + i * n))[j] = sums[i][j];
}

static void filter(const uint8_t *restrict a, const uint8_t *restrict b, uint32_t *restrict c, int m,
                   int n, int k, V *restrict packed) {
    for (int x = 0; x < n; x += LANES) {
        for (int quad = 0; quad < k; quad += QUAD)
            interleave(b + quad * n + x, n, packed + quad / QUAD * VECTORS);
        for (int y = 0; y < m; y += ROWS) block(a + y * k, k, packed, c + y * n + x, n);
    }
}

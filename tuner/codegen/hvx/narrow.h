/* Rows that fill no vector: copied side by side into memory of whole vectors, and out of it. */
#define WRITTEN_OUT _Pragma("clang loop unroll(full)")
#define INLINE static inline __attribute__((always_inline))
enum { ROWS_TOGETHER = 4, MOST_VECTORS = 16 };

/* `bytes` bytes from a vector boundary to another. */
INLINE void copy_all(
    uint8_t *restrict to, const uint8_t *restrict from, const int bytes) {
    const int vectors = bytes / VECTOR_BYTES * VECTOR_BYTES, words = bytes / 4 * 4;
    for (int at = 0; at < vectors; at += VECTOR_BYTES) *(V *)(to + at) = *(const V *)(from + at);
    for (int at = vectors; at < words; at += 4)
        *(uint32_t *)(to + at) = *(const uint32_t *)(from + at);
    for (int at = words; at < bytes; ++at) to[at] = from[at];
}

/* Rows of an image: `height` of `bytes` bytes each. Nothing from `end` on is read. */
struct image {
    const uint8_t *first, *end;
    int bytes, height;
};

/* How rows are copied: each of `bands` rows, `apart` from each other in the image and `pitch` bytes in
   a vector, goes the ways of `vdelta` to its lanes; of one alone each of `vectors` has its way, or
   none. Copied rows are `across` vectors apart. */
struct way {
    const V *ways;
    int vectors, across, bands, apart, pitch;
};

/* A vector of row number `row`, from byte `at` on. Beyond the first and the last row those are it again,
   where it is not known to lie `inside`, and a vector before the end. */
INLINE V part_of(struct image image, int row, int at, int inside) {
    if (inside) return *(const VU *)(image.first + row * image.bytes + at);
    const uint8_t *place = image.first + clamped(row, 0, image.height - 1) * image.bytes + at;
    const int beyond = place + VECTOR_BYTES - image.end;
    if (beyond <= 0) return *(const VU *)place;
    return HVX(vror)(*(const VU *)(image.end - VECTOR_BYTES), beyond);
}

INLINE void copy_row(V *to, struct image image, int row, struct way way, int inside) {
    if (way.bands == 1) {
        V parts[MOST_VECTORS];
        WRITTEN_OUT for (int n = 0; n < way.vectors; ++n)
            parts[n] = part_of(image, row, way.ways ? 0 : n * VECTOR_BYTES, inside);
        WRITTEN_OUT for (int n = 0; n < way.vectors; ++n)
            to[n] = way.ways ? HVX(vdelta)(parts[n], way.ways[n]) : parts[n];
        return;
    }
    V made = HVX(vdelta)(part_of(image, row, 0, inside), way.ways[0]);
    WRITTEN_OUT for (int band = 1; band < way.bands; ++band) {
        const V pixels = part_of(image, row + band * way.apart, 0, inside);
        const V lower = HVX(pred_scalar2)(band * way.pitch);
        made = HVX(vmux)(lower, made, HVX(vdelta)(pixels, way.ways[band]));
    }
    *to = made;
}

/* `rows` rows from number `first` on. */
INLINE void copy_rows(V *restrict to, struct image image, int first, int rows, struct way way) {
    const int bytes = way.ways ? VECTOR_BYTES : way.vectors * VECTOR_BYTES;
    const int whole = (int)(image.end - image.first - bytes) / image.bytes + 1;
    const int stop = at_most(whole, image.height) - (way.bands - 1) * way.apart;
    const int last = first + rows;
    for (; first < 0 && first < last; to += way.across, ++first) copy_row(to, image, first, way, 0);
    _Pragma("clang loop unroll_count(4)") for (; first < at_most(last, stop); ++first) {
        copy_row(to, image, first, way, 1);
        to += way.across;
    }
    for (; first < last; to += way.across, ++first) copy_row(to, image, first, way, 0);
}

/* `rows` rows of `bytes` bytes, from `across` bytes apart to one after the other, where there is
   `room`. What follows there is stored later. */
INLINE void store_rows(
    uint8_t *restrict to, const uint8_t *restrict from, const int across, const int bytes,
    const int rows, int room) {
    int row = 0;
    if (bytes <= VECTOR_BYTES) {
        const int last = at_most(rows, (room - VECTOR_BYTES) / bytes) - ROWS_TOGETHER;
        for (; row <= last; row += ROWS_TOGETHER) {
            V some[ROWS_TOGETHER];
            WRITTEN_OUT for (int n = 0; n < ROWS_TOGETHER; ++n)
                some[n] = *(const VU *)(from + (row + n) * across);
            WRITTEN_OUT for (int n = 0; n < ROWS_TOGETHER; ++n)
                *(VU *)(to + (row + n) * bytes) = some[n];
        }
    }
    for (; row < rows; ++row)
        for (int at = 0; at < bytes; at += VECTOR_BYTES) {
            const V own = *(const VU *)(from + row * across + at);
            if (room - row * bytes - at >= VECTOR_BYTES)
                *(VU *)(to + row * bytes + at) = own;
            else
                store_first(to + row * bytes + at, own, at_most(bytes - at, VECTOR_BYTES));
        }
}

/* Rows of pixels with any number of channels, as bytes one after another. */

/* The vector at a place; nothing from `end` on is read, for which it turns what ends there. */
INLINE V before(const uint8_t *from, const uint8_t *end) {
    const int beyond = from + VECTOR_BYTES - end;
    if (beyond <= 0) return *(const VU *)from;
    return HVX(vror)(*(const VU *)(end - VECTOR_BYTES), beyond);
}

/* `bytes` bytes, and what the last vector has beyond; nothing from `end` on is read. */
INLINE void copy_bytes(uint8_t *restrict to, const uint8_t *restrict from, const uint8_t *end, const int bytes) {
    const int whole = (bytes + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES;
    if (from + whole <= end)
        for (int at = 0; at < bytes; at += VECTOR_BYTES) *(VU *)(to + at) = *(const VU *)(from + at);
    else
        for (int at = 0; at < bytes; at += VECTOR_BYTES) *(VU *)(to + at) = before(from + at, end);
}

/* `count` bytes again and again, `bytes` in all and what vectors have beyond. */
static __attribute__((noinline)) void repeat(
    uint8_t *to, const uint8_t *from, const uint8_t *end, int count, int bytes) {
    if (count < VECTOR_BYTES) {
        V own = before(from, end);
        for (int has = count; has < VECTOR_BYTES; has *= 2)
            own = HVX(vmux)(HVX(pred_scalar2)(has), own, HVX(vror)(own, VECTOR_BYTES - has));
        const int whole = VECTOR_BYTES / count * count;
        for (int at = 0; at < bytes; at += whole) *(VU *)(to + at) = own;
        return;
    }
    copy_bytes(to, from, end, count);
    for (int has = count; has < bytes; has *= 2)
        for (int at = 0; at < at_most(has, bytes - has); at += VECTOR_BYTES)
            *(VU *)(to + has + at) = *(const VU *)(to + at);
}

INLINE void fill(uint8_t *to, V with, const int bytes) {
    for (int at = 0; at < bytes; at += VECTOR_BYTES) *(VU *)(to + at) = with;
}

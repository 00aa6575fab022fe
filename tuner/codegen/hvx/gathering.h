/* Memory that is gathered from. */
void *HAP_request_VTCM(unsigned bytes, unsigned single_page);
int HAP_release_VTCM(void *memory);

static inline void release_vtcm(uint8_t **memory) {
    if (*memory) HAP_release_VTCM(*memory);
}

#define TAKE_VTCM(name, bytes)                                                                 \
    uint8_t *name __attribute__((cleanup(release_vtcm))) = HAP_request_VTCM((bytes), 1);        \
    if (!name) return OUT_OF_MEMORY

static inline void copy(uint8_t *restrict to, const uint8_t *restrict from, int bytes) {
    if (bytes < VECTOR_BYTES) {
        for (int n = 0; n < bytes; ++n) to[n] = from[n];
        return;
    }
    for (int n = 0; n < bytes; n += VECTOR_BYTES) {
        const int at = at_most(n, bytes - VECTOR_BYTES); /* the last one overlaps */
        *(VU *)(to + at) = *(const VU *)(from + at);
    }
}

/* Of each halfword that was gathered the byte at its offset. */
static inline V bytes_of(const V *gathered, const V *offsets) {
    V byte[2];
    for (int n = 0; n < 2; ++n) {
        const V odd = HVX(vand)(offsets[n], HVX(lvsplath)(1));
        byte[n] = HVX(vlsrhv)(gathered[n], HVX(vaslh)(odd, 3));
    }
    return HVX(vpackeb)(byte[1], byte[0]);
}

static inline W even_words(W offsets) {
    const V mask = HVX(lvsplatw)(-2);
    return HVX(vcombine)(HVX(vand)(HVX(hi)(offsets), mask), HVX(vand)(HVX(lo)(offsets), mask));
}

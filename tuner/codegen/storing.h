/* A mask of the first `bytes` bytes of a vector, at most all of them. */
static inline __attribute__((always_inline)) V first_bytes(int bytes) {
    return HVX(vandqrt)(HVX(pred_scalar2v2)(bytes), -1);
}

/* Stores the first `bytes` bytes of a vector anywhere: fewer than all, and at least one. */
static inline __attribute__((always_inline)) void store_first(void *to, V value, int bytes) {
    int before = (uintptr_t)to % VECTOR_BYTES, last = before + bytes;
    uint8_t *line = (uint8_t *)to - before;
    V turned = HVX(vlalignb)(value, value, before);
    V one = HVX(vandnqrt)(HVX(pred_scalar2)(before), -1);
    V first = HVX(vand)(one, first_bytes(at_most(last, VECTOR_BYTES)));
    HVX(vS32b_qpred_ai)(HVX(vandvrt)(first, -1), (V *)line, turned);
    if (last > VECTOR_BYTES)
        HVX(vS32b_qpred_ai)(HVX(vandvrt)(first_bytes(last - VECTOR_BYTES), -1),
                            (V *)(line + VECTOR_BYTES), turned);
}

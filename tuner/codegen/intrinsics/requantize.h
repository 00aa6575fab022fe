/* Bytes of four vectors of sums, as in requantize.py: those of a lane lie side by side. */
INLINE V requantized_word(const V sums[QUAD]) {
    const int scale = multiplier | multiplier << 16, zero = zero_out << shift;
    V half[2];
    UNROLLED for (int i = 0; i < 2; ++i) {
        V narrow = HVX(vasrwhrndsat)(sums[i + 2], sums[i], pre_shift);
        half[i] = HVX(vaddhsat)(HVX(vmpyhsrs)(narrow, scale), HVX(lvsplatw)(zero | zero << 16));
    }
    return HVX(vasrhubrndsat)(half[1], half[0], shift);
}

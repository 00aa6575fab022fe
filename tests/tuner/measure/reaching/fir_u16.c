/* Sums of 32 products of halfwords, modulo 2^32: 64 products take both multipliers of a packet, and
   the data moves on by a tap in the permute unit beside them. Eight pairs of vectors of sums share a tap. */
typedef int V __attribute__((vector_size(128), aligned(128)));
typedef int W __attribute__((vector_size(256), aligned(128)));
#define HVX(name) __builtin_HEXAGON_V6_##name##_128B
#define EVERY(i) _Pragma("unroll") for (int i = 0; i < 8; ++i)

static void filter(const uint16_t *restrict signal, const uint16_t *restrict taps,
                   uint32_t *restrict sums, int size) {
    W *to = (W *)sums;
    for (int x = 0; x < size; x += 512) {
        const V *from = (const V *)(signal + x);
        V data[9];
        W sum[8];
        for (int i = 0; i < 9; ++i) data[i] = from[i];
        EVERY(i) sum[i] = HVX(vmpyuh)(data[i], taps[0] * 0x10001);
        V first = HVX(valignb)(data[1], data[0], 2);
        int pair = taps[1] * 0x10001;
        for (int k = 1; k < 32; ++k) {  /* the next tap's first data while this one's last is used */
            V ahead = first;
            int now = pair;
            EVERY(i) {
                V shifted = ahead;
                ahead = i < 7 ? HVX(valignb)(data[i + 2], data[i + 1], 2 * k)
                              : HVX(valignb)(data[1], data[0], 2 * k + 2);
                sum[i] = HVX(vmpyuh_acc)(sum[i], shifted, now);
            }
            first = ahead;
            pair = taps[k < 31 ? k + 1 : k] * 0x10001;
        }
        EVERY(i) to[i] = HVX(vshuffvdd)(HVX(hi)(sum[i]), HVX(lo)(sum[i]), -4);
        to += 8;
    }
}

/* A table of 256 bytes: eight vlut32, of which each looks at 32 entries and keeps what the others
   found. Rows follow one another without gaps; WIDE vectors at once. */
#include "vectors.h"

static void filter(const uint8_t *restrict in, const uint8_t *restrict table, uint8_t *restrict out,
                   int size) {
    /* vlut32 looks at every second byte of its 32 halfwords: the two halves of a vector are shuffled. */
    V low = HVX(vshuffb)(AT(table)), high = HVX(vshuffb)(AT(table + LANES));
    for (int x = 0; x < size; x += WIDE * LANES) EVERY(i) {
        V given = AT(in + x + LANES * i), found = HVX(vlutvvbi)(given, low, 0);
        found = HVX(vlutvvb_oracci)(found, given, low, 1);
        found = HVX(vlutvvb_oracci)(found, given, low, 2);
        found = HVX(vlutvvb_oracci)(found, given, low, 3);
        found = HVX(vlutvvb_oracci)(found, given, high, 4);
        found = HVX(vlutvvb_oracci)(found, given, high, 5);
        found = HVX(vlutvvb_oracci)(found, given, high, 6);
        found = HVX(vlutvvb_oracci)(found, given, high, 7);
        *(V *)(out + x + LANES * i) = found;
    }
}

struct product p = {A, B, (int32_t *)C, 0, A_stride_1, B_stride_1, C_stride_1, C_extent_1, C_extent_0, A_extent_0, 0};
const int quads = (p.k + QUAD - 1) / QUAD;
if (A_extent_1 != p.m) return CONSTRAINT_VIOLATED;
if (B_extent_1 != (PACKED ? quads : p.k) || B_extent_0 != (PACKED ? QUAD * p.n : p.n)) return CONSTRAINT_VIOLATED;
p.in_place = PACKED && (B_ALIGNED || p.m <= ROWS) && quads >= GROUP;
p.quads = p.in_place ? quads / GROUP * GROUP : rounded_up(quads, GROUP);
const int is_kept = p.m > ROWS && !p.in_place, in_pairs = is_kept || p.in_place;
const int multiple = is_kept ? QUAD * GROUP : 1;
const int is_direct = in_pairs ? (p.m == 1 || p.a_stride % 8 == 0) && (uintptr_t)A % 8 == 0 && p.k % multiple == 0
                               : (p.m == 1 || p.a_stride % QUAD == 0) && (uintptr_t)A % QUAD == 0;
if (!is_direct) {
    p.a_stride = rounded_up(p.k, VECTOR_BYTES);
    uint8_t *copy = scratch(p.m * p.a_stride);
    for (int y = 0; y < p.m; ++y)
        for (int k = 0; k < p.k; k += VECTOR_BYTES)
            *(V *)(copy + y * p.a_stride + k) = *(const VU *)(A + y * A_stride_1 + k);
    p.a = copy;
}
if (PREFETCH == 2)
    for (int y = 0; y < p.m; ++y)
        for (int k = 0; k < p.k; k += L1_LINE_BYTES) __builtin_prefetch(p.a + y * p.a_stride + k);
#if SIGNED
V *row_sums = scratch(rounded_up(p.m, WORDS) * 4), *parts = scratch(WORDS * VECTOR_BYTES);
sum_rows(&p, parts, row_sums);
p.row_sums = (const int32_t *)row_sums;
#endif
const int panel_columns = COLUMNS * WORDS, panels = p.n / panel_columns;
const int copied = WALKS_ROWS ? at_most(panels + 1, (p.n + panel_columns - 1) / panel_columns) : 1;
V *packed = is_kept ? scratch(copied * p.quads * COLUMNS * VECTOR_BYTES) : (V *)0;
if (p.m < ROWS) {
    if (p.in_place)
        all_panels(&p, 1, packed);
    else
        for (int x = 0; x < p.n; x += panel_columns)
            for (int y = 0; y < p.m; ++y) first_tile(&p, 1, COLUMNS, y, x, 0, (V *)0);
    return 0;
}
all_panels(&p, ROWS, packed);

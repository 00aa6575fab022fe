struct product p = {A, B, (int32_t *)C, 0, A_stride_1, B_stride_1, C_stride_1, C_extent_1, C_extent_0, A_extent_0, 0};
p.quads = rounded_up((p.k + QUAD - 1) / QUAD, GROUP);
if (B_extent_1 != p.k || A_extent_1 != p.m || B_extent_0 != p.n) return CONSTRAINT_VIOLATED;
const int is_kept = p.m > ROWS;
const int is_direct = is_kept ? p.a_stride % 8 == 0 && (uintptr_t)A % 8 == 0 && p.k % (QUAD * GROUP) == 0
                              : (p.m == 1 || p.a_stride % QUAD == 0) && (uintptr_t)A % QUAD == 0;
if (!is_direct) {
    p.a_stride = rounded_up(QUAD * p.quads, VECTOR_BYTES);
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
    for (int x = 0; x < p.n; x += panel_columns)
        for (int y = 0; y < p.m; ++y) first_tile(&p, 1, COLUMNS, y, x, 0, (V *)0);
    return 0;
}
if (WALKS_ROWS && panels)
    panels_at(&p, ROWS, COLUMNS, 0, panels, 1, packed);
else
    for (int panel = 0; panel < panels; ++panel)
        panels_at(&p, ROWS, COLUMNS, panel * panel_columns, 1, 1, packed);
for (int x = panels * panel_columns; x < p.n; x += LAST_COLUMNS * WORDS)
    panels_at(&p, ROWS, LAST_COLUMNS, x, 1, 0, packed);

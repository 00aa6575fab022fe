/* C = A B in tiles of registers, ROWS x COLUMNS vectors of sums. A quad is four bytes along k: a
   word of a row of A times a vector of B. B lies in panels of COLUMNS vectors, in which four rows
   are interleaved. The first tile of a panel interleaves them and keeps them for the others.

   Sums of one tile are stored between the products of the next. While a tile is computed, the rows
   of A of the next one come into L1 (dcfetch).

   A B that is PACKED has all rows interleaved already. Where its rows lie aligned or few tiles read
   it, it is read in place, with its panels side by side, and quads behind the last group are
   multiplied one by one; else the first tile keeps it aligned for the others.

   With signed operands B has 128 added, and 128 times the sums of A's rows are taken away. */
enum { GROUP = 2 * PAIRS };

#if SIGNED
#define PRODUCT HVX(vrmpybus)
#define ADDED_PRODUCT HVX(vrmpybus_acc)
#define FLIPPED(vector) HVX(vxor)(vector, HVX(lvsplatw)(0x80808080))
#else
#define PRODUCT HVX(vrmpyub)
#define ADDED_PRODUCT HVX(vrmpyub_acc)
#define FLIPPED(vector) (vector)
#endif

/* `k` bytes of each of `m` rows of `a`; `quads` of B with their padding by zeros or, of a B in place,
   those of whole groups. */
struct product {
    const uint8_t *a, *b;
    int32_t *c;
    const int32_t *row_sums;
    int a_stride, b_stride, c_stride, m, n, k, quads, in_place;
};

struct tile {
    V sums[ROWS][COLUMNS];
    V quads[COLUMNS];
    uint64_t words[ROWS];
};

/* Bytes from one quad of a panel to the next, and from one panel to the next. */
INLINE int quad_step(const struct product *p, int columns) {
    return p->in_place ? p->b_stride : columns * VECTOR_BYTES;
}
INLINE int panel_step(const struct product *p, int columns) {
    return p->in_place ? columns * VECTOR_BYTES : p->quads * columns * VECTOR_BYTES;
}

INLINE void load(struct tile *t, const struct product *p, int rows, int columns, const uint8_t *a,
                 const uint8_t *b, int quad) {
    UNROLLED for (int c = 0; c < columns; ++c) t->quads[c] = vector_at(
        b + quad * quad_step(p, columns) + c * VECTOR_BYTES, B_ALIGNED || !p->in_place);
    if (quad % 2 == 0)
        UNROLLED for (int r = 0; r < rows; ++r) t->words[r] =
            *(const uint64_t *)(a + r * p->a_stride + QUAD * quad);
}

INLINE void multiply(struct tile *t, int rows, int columns, int is_high, int is_first) {
    UNROLLED for (int r = 0; r < rows; ++r) {
        int word = (int)(is_high ? t->words[r] >> 32 : t->words[r]);
        UNROLLED for (int c = 0; c < columns; ++c) t->sums[r][c] =
            is_first ? PRODUCT(t->quads[c], word) : ADDED_PRODUCT(t->sums[r][c], t->quads[c], word);
    }
}

/* Stores the tile at row y, whose first element is `to`. `whole`: all vectors are, else `there`
   elements of a row. */
INLINE void store(const struct tile *t, const struct product *p, int rows, int columns, int y,
                  int32_t *to, int whole, int there) {
    UNROLLED for (int r = 0; r < rows; ++r) {
        int32_t *row = to + r * p->c_stride;
        UNROLLED for (int c = 0; c < columns; ++c) {
            V sum = t->sums[r][c];
            int left = there - c * WORDS;
            if (SIGNED) sum = HVX(vsubw)(sum, HVX(lvsplatw)(p->row_sums[y + r] << 7));
            if (whole && C_ALIGNED)
                *(V *)(row + c * WORDS) = sum;
            else if (whole || left >= WORDS)
                *(VU *)(row + c * WORDS) = (VU)sum;
            else if (left > 0)
                store_first(row + c * WORDS, sum, 4 * left);
        }
    }
}

/* Multiplies the quads of a packed B one by one, from `quad` on, to which `a` and `b` point. They go to
   `packed`, if that is kept, with their padding. */
INLINE void multiply_quads(struct tile *t, const struct product *p, int rows, int columns,
                           const uint8_t *a, const uint8_t *b, int quad, V *packed) {
    for (; quad < (p->k + QUAD - 1) / QUAD; ++quad) {
        UNROLLED for (int r = 0; r < rows; ++r) t->words[r] =
            *(const uint32_t *)(a + r * p->a_stride);
        UNROLLED for (int c = 0; c < columns; ++c) t->quads[c] =
            vector_at(b + c * VECTOR_BYTES, B_ALIGNED);
        multiply(t, rows, columns, 0, 0);
        if (packed)
            UNROLLED for (int c = 0; c < columns; ++c) *packed++ = t->quads[c];
        a += QUAD, b += p->b_stride;
    }
    if (packed)
        for (; quad < p->quads; ++quad)
            UNROLLED for (int c = 0; c < columns; ++c) *packed++ = HVX(vd0)();
}

/* Four rows of B, of which `there` exist; the others count as zeros. */
INLINE void load_rows(V rows[QUAD], const struct product *p, int columns, const uint8_t *b,
                      int there) {
    const int aligned = B_ALIGNED && COLUMNS % QUAD == 0 && columns == COLUMNS;
    UNROLLED for (int i = 0; i < QUAD; ++i) rows[i] =
        i < there ? FLIPPED(vector_at(b + i * p->b_stride, aligned))
                  : HVX(vd0)();
}

/* The tile of the first rows at column x, from B as it is. What it interleaves goes to `packed`,
   if that is kept. */
INLINE void first_tile(const struct product *p, int rows, int columns, int y, int x, int whole,
                       V *packed) {
    struct tile t;
    const uint8_t *a = p->a + y * p->a_stride, *b = p->b + (PACKED ? QUAD : 1) * x;
    const int whole_quads = p->k / QUAD;
    UNROLLED for (int r = 0; r < rows; ++r)
        UNROLLED for (int c = 0; c < columns; ++c) t.sums[r][c] = HVX(vd0)();
    if (PACKED) {
        multiply_quads(&t, p, rows, columns, a, b, 0, packed);
        store(&t, p, rows, columns, y, p->c + y * p->c_stride + x, whole, p->n - x);
        return;
    }
    V rows_of_b[QUAD];
    if (whole_quads) load_rows(rows_of_b, p, columns, b, QUAD);
    _Pragma("clang loop unroll_count(2)") for (int quad = 0; quad < whole_quads; ++quad) {
        interleave(rows_of_b, t.quads, columns);
        b += quad + 1 < whole_quads ? QUAD * p->b_stride : 0;
        load_rows(rows_of_b, p, columns, b, QUAD);
        UNROLLED for (int r = 0; r < rows; ++r) t.words[r] =
            *(const uint32_t *)(a + r * p->a_stride);
        multiply(&t, rows, columns, 0, 0);
        if (packed)
            UNROLLED for (int c = 0; c < columns; ++c) *packed++ = t.quads[c];
        a += QUAD;
    }
    int rest = p->k % QUAD;
    if (rest) {
        load_rows(rows_of_b, p, columns, p->b + x + whole_quads * QUAD * p->b_stride, rest);
        interleave(rows_of_b, t.quads, columns);
        UNROLLED for (int r = 0; r < rows; ++r) t.words[r] =
            *(const uint32_t *)(a + r * p->a_stride);
        multiply(&t, rows, columns, 0, 0);
        if (packed)
            UNROLLED for (int c = 0; c < columns; ++c) *packed++ = t.quads[c];
    }
    if (packed)
        for (int quad = (p->k + QUAD - 1) / QUAD; quad < p->quads; ++quad)
            UNROLLED for (int c = 0; c < columns; ++c) *packed++ = HVX(vd0)();
    store(&t, p, rows, columns, y, p->c + y * p->c_stride + x, whole, p->n - x);
}

/* Has L1 fetch the lines of `count` rows: a share of them at each quad of a group. LLVM moves no
   load past a fetch, and two in a row would cost a packet. */
INLINE void fetch(const struct product *p, int count, int quad, const uint8_t *from) {
    UNROLLED for (int r = 0; r < count; ++r) if (r * GROUP / count == quad)
        __builtin_prefetch(from + r * p->a_stride);
}

/* What keeps the loads before the jump: else LLVM moves them behind it, where nothing hides them.
   It also decides how LLVM orders all else around them. */
#if LOADS_STAY == 1
#define END_OF_TILE __asm__ volatile("");
#elif LOADS_STAY == 2
#define END_OF_TILE UNROLLED for (int c = 0; c < columns; ++c) __asm__("" : "+v"(t.quads[c]));
#else
#define END_OF_TILE
#endif

/* The tiles of `panels` at column x, whose quads begin at `packed`: from row ROWS on, or all of them
   if B is in place. The last rows begin where they end with the matrix. */
INLINE void other_tiles(const struct product *p, int rows, int columns, int x, int panels,
                        int whole, const uint8_t *packed) {
    struct tile t;
    const int groups = p->quads / GROUP, first = p->in_place ? 0 : rows;
    if (p->m <= first) return;
    int y = at_most(first, p->m - rows), panel = 0;
    const uint8_t *a = p->a + y * p->a_stride, *b = packed;
    load(&t, p, rows, columns, a, b, 0);
    multiply(&t, rows, columns, 0, 1);
    load(&t, p, rows, columns, a, b, 1);
    /* Panels share the rows to fetch, if it is known how many they are: loops must be unrolled. */
    const int shares = __builtin_constant_p(panels) ? panels : 1;
    const int fetched = PREFETCH == 1 ? (rows + shares - 1) / shares : 0;
    for (int left = panels * ((p->m - first + rows - 1) / rows); left; --left) {
        const uint8_t *ahead = a + (rows + (shares > 1 ? panel * fetched : 0)) * p->a_stride;
        int32_t *to = p->c + y * p->c_stride + x + panel * columns * WORDS;
        const int at = y;
        /* Behind the last tile: some tile again, whose products are not used. */
        const int is_last = panel == panels - 1;
        panel = is_last ? 0 : panel + 1;
        y = is_last ? at_most(y + rows, p->m - rows) : y;
        const uint8_t *next_b = is_last ? packed : b + panel_step(p, columns);
        const uint8_t *next_a = p->a + y * p->a_stride;
        for (int group = 1; group < groups; ++group) {
            UNROLLED for (int quad = 1; quad <= GROUP; ++quad) {
                fetch(p, fetched, quad - 1, ahead);
                multiply(&t, rows, columns, quad % 2, 0);
                load(&t, p, rows, columns, a, b, quad + 1);
            }
            a += QUAD * GROUP, b += GROUP * quad_step(p, columns), ahead += QUAD * GROUP;
        }
        UNROLLED for (int quad = 1; quad < GROUP; ++quad) {
            fetch(p, fetched, quad, ahead);
            multiply(&t, rows, columns, quad % 2, 0);
            if (quad + 1 < GROUP) load(&t, p, rows, columns, a, b, quad + 1);
        }
        if (p->in_place)
            multiply_quads(&t, p, rows, columns, a + QUAD * GROUP, b + GROUP * p->b_stride, p->quads,
                           (V *)0);
        store(&t, p, rows, columns, at, to, whole, p->n - x);
        a = next_a, b = next_b;
        load(&t, p, rows, columns, a, b, 0);
        multiply(&t, rows, columns, 0, 1);
        load(&t, p, rows, columns, a, b, 1);
        END_OF_TILE
    }
}

/* `panels` at column x, of `columns` vectors each. */
INLINE void panels_at(const struct product *p, int rows, int columns, int x, int panels, int whole,
                      V *packed) {
    if (p->in_place) {
        other_tiles(p, rows, columns, x, panels, whole, p->b + QUAD * x);
        return;
    }
    for (int panel = 0; panel < panels; ++panel)
        first_tile(p, rows, columns, 0, x + panel * columns * WORDS, whole,
                   packed ? packed + panel * p->quads * columns : packed);
    if (packed) other_tiles(p, rows, columns, x, panels, whole, (const uint8_t *)packed);
}

/* All columns, in tiles of that many rows: whole panels, then the rest of them. */
INLINE void all_panels(const struct product *p, int rows, V *packed) {
    const int panel_columns = COLUMNS * WORDS, panels = p->n / panel_columns;
    if (WALKS_ROWS && panels)
        panels_at(p, rows, COLUMNS, 0, panels, 1, packed);
    else
        for (int panel = 0; panel < panels; ++panel)
            panels_at(p, rows, COLUMNS, panel * panel_columns, 1, 1, packed);
    for (int x = panels * panel_columns; x < p->n; x += LAST_COLUMNS * WORDS)
        panels_at(p, rows, LAST_COLUMNS, x, 1, 0, packed);
}

/* The sums of WORDS rows, whose vectors of partial sums lie in `parts`: neighbours are added in a
   tree. */
#define TREE(rows, half)                                                                        \
    INLINE V tree##rows(const V *parts) {                                                       \
        W pair = HVX(vshuffvdd)(tree##half(parts + half), tree##half(parts), -4 * half);        \
        return HVX(vaddw)(HVX(lo)(pair), HVX(hi)(pair));                                        \
    }
INLINE V tree1(const V *parts) { return *parts; }
TREE(2, 1)
TREE(4, 2)
TREE(8, 4)
TREE(16, 8)
TREE(32, 16)

/* The sum of each row of A, in order. The last vector's rows beyond A are the last one's. */
INLINE void sum_rows(const struct product *p, V *parts, V *sums) {
    const V ones = HVX(lvsplatw)(0x01010101);
    const V last_ones = p->k % VECTOR_BYTES ? HVX(vand)(ones, first_bytes(p->k % VECTOR_BYTES)) : ones;
    for (int y = 0; y < p->m; y += WORDS) {
        for (int r = 0; r < WORDS; ++r) {
            const VU *row = (const VU *)(p->a + at_most(y + r, p->m - 1) * p->a_stride);
            V sum = HVX(vd0)();
            for (int k = VECTOR_BYTES; k < p->k; k += VECTOR_BYTES)
                sum = HVX(vrmpybusv_acc)(sum, ones, (V)*row++);
            parts[r] = HVX(vrmpybusv_acc)(sum, last_ones, (V)*row);
        }
        *sums++ = tree32(parts);
    }
}

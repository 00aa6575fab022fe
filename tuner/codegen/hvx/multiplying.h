/* C = A B in tiles of registers, ROWS x COLUMNS vectors of sums, a word for each column. A step is
   STEP elements along k: those of a row of A times a vector of B, in which each word has those of a
   column. B lies in panels of COLUMNS vectors. The first tile of a panel makes its vectors of rows of
   B, and keeps them for the others.

   Sums of one tile are stored between the products of the next. While a tile is computed, the rows
   of A of the next one come into L1 (dcfetch), and rows of B into L2 (l2fetch). The last rows and
   columns begin where they end with the matrix.

   A B that is PACKED has the vectors of each step as a row, and is read IN_PLACE where it may be.

   Of signed elements half the range is added, to B or to both, and what that adds to sums is taken
   away: it depends on sums of rows of A and of columns of B. */
#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#define rounded_up(value, multiple) (((value) + (multiple) - 1) / (multiple) * (multiple))
enum { WORDS = VECTOR_BYTES / 4, STEP_BYTES = STEP * ELEMENT_BYTES, MOST_STRIDE = 0xFFFF };
enum { L1_LINE_BYTES = 32 };
/* Of B: rows of a step, and bytes of a column in one. */
enum { ROWS_OF_STEP = PACKED ? 1 : STEP, COLUMN_BYTES = PACKED ? STEP_BYTES : ELEMENT_BYTES };

/* How the columns of a panel are stored: as whole vectors, on their boundaries if rows of C are;
   as such that begin anywhere; or, of a C that is narrower, in part. */
enum { WHOLE, ANYWHERE, PART };

#if STEP > 1
typedef uint64_t WORD; /* two steps of a row of A */
#else
typedef uint32_t WORD;
#endif

/* `m` rows of A and `n` columns of B, `k` elements each; strides in bytes. `steps` are those of a
   panel that is kept, with their padding by zeros. Terms are added to the sums. */
struct product {
    const uint8_t *a, *b, *b_end;
    uint8_t *c;
    const int32_t *row_terms, *bias, *scales;
    int32_t *column_terms;
    int a_stride, b_stride, c_stride, m, n, k, steps;
    int row_by, column_by, column_more;
    int numbers[NUMBERS];
};

/* What becomes of sums comes here. */

struct tile {
    V sums[ROWS][COLUMNS];
    V vectors[COLUMNS];
    WORD words[ROWS];
};

/* LLVM takes two loads of one place, of which one is aligned, for one that is not. */
INLINE V vector_at(const void *from, const int is_aligned) {
    if (is_aligned) from = __builtin_assume_aligned(from, VECTOR_BYTES);
    return (V) * (const VU *)from;
}

/* A vector in memory that has one before `end`. From there on it is anything. */
static __attribute__((noinline)) V before(const uint8_t *end, const uint8_t *from) {
    const int beyond = (int)(from - end) + VECTOR_BYTES;
    if (beyond <= 0) return *(const VU *)from;
    return HVX(vror)(*(const VU *)(end - VECTOR_BYTES), beyond);
}

/* The bytes up to `*end`, where they fill no vector in `room`, of which then is the end. */
static const uint8_t *of_a_vector(const uint8_t *from, const uint8_t **end, uint8_t *room) {
    const int bytes = (int)(*end - from);
    if (bytes >= VECTOR_BYTES) return from;
    ROLLED for (int n = 0; n < bytes; ++n) room[n] = from[n];
    *end = room + VECTOR_BYTES;
    return room;
}

/* Vectors of B from one step of a panel to the next, and from one panel to the next. */
INLINE int to_next_step(const struct product *p, const int columns) {
    return IN_PLACE ? p->b_stride / VECTOR_BYTES : columns;
}
INLINE int to_next_panel(const struct product *p, const int columns) {
    return IN_PLACE ? columns : p->steps * columns;
}

INLINE void load(
    struct tile *t, const struct product *p, const int rows, const int columns, const uint8_t *a,
    const V *b, const int step) {
    UNROLLED for (int c = 0; c < columns; ++c) t->vectors[c] =
        b[step * to_next_step(p, columns) + c];
    UNROLLED for (int r = 0; r < rows; ++r) {
        const uint8_t *at = a + r * p->a_stride + STEP_BYTES * step;
        if (STEP == 1)
            t->words[r] = *(const uint16_t *)at;
        else if (step % 2 == 0)
            t->words[r] = *(const WORD *)at;
    }
}

INLINE void multiply(
    struct tile *t, const int rows, const int columns, const int is_high, const int is_first) {
    UNROLLED for (int n = 0; n < rows * columns; ++n) {
        const int r = BY_COLUMNS ? n % rows : n / columns, c = BY_COLUMNS ? n / rows : n % columns;
        const int word = (int)(STEP > 1 && is_high ? (uint64_t)t->words[r] >> 32 : t->words[r]);
        t->sums[r][c] = is_first ? PRODUCT(t->vectors[c], word)
                                 : ADDED_PRODUCT(t->sums[r][c], t->vectors[c], word);
    }
}

/* Stores the tile at row y and column x. */
INLINE void store(
    const struct tile *t, const struct product *p, const int rows, const int columns, int y, int x,
    const int kind) {
    enum { TOGETHER = 4 / OUT_BYTES };
    V more[COLUMNS];
    uint8_t *row[ROWS];
    UNROLLED for (int r = 0; r < rows; ++r) row[r] =
        r ? row[r - 1] + p->c_stride : p->c + y * p->c_stride + OUT_BYTES * x;
    if (COLUMN_TERMS)
        UNROLLED for (int c = 0; c < columns; ++c) more[c] =
            *(const VU *)(p->column_terms + x + c * WORDS);
    UNROLLED for (int c = 0; c < columns; c += TOGETHER)
        UNROLLED for (int r = 0; r < rows; ++r) {
            V some[TOGETHER];
            UNROLLED for (int n = 0; n < TOGETHER; ++n) {
                const int own = at_most(c + n, columns - 1);
                some[n] = t->sums[r][own];
                if (COLUMN_TERMS) some[n] = HVX(vaddw)(some[n], more[own]);
                if (ROW_TERMS) some[n] = HVX(vaddw)(some[n], HVX(lvsplatw)(p->row_terms[y + r]));
                some[n] = ended(some[n], p, x + own * WORDS);
            }
#if OUT_BYTES < 4
            const V made = narrowed(some, p);
#else
            const V made = some[0];
#endif
            const int there = kind == PART ? at_most(columns * WORDS, p->n - x) : columns * WORDS;
            const int bytes = at_most(OUT_BYTES * (there - c * WORDS), VECTOR_BYTES);
            uint8_t *to = row[r] + OUT_BYTES * WORDS * c;
            if (kind == WHOLE && C_ALIGNED && columns % TOGETHER == 0)
                *(V *)to = made;
            else if (bytes == VECTOR_BYTES)
                *(VU *)to = (VU)made;
            else if (bytes > 0)
                store_first(to, made, bytes);
        }
}

/* What vectors of a step are made of: STEP rows of B, of which `there` exist, or the others count as
   zeros; or vectors of one, of halfwords or as they are. Where they do not lie `inside`, nothing beyond
   B is read. */
enum { LOADED = PACKED ? COLUMNS : STEP > 1 ? STEP : (COLUMNS + 1) / 2 };
INLINE void load_rows(
    V loaded[LOADED], const struct product *p, const int columns, const uint8_t *b,
    const int inside, const int is_aligned, const int there) {
    const int count = PACKED ? columns : STEP > 1 ? STEP : (columns + 1) / 2;
    UNROLLED for (int i = 0; i < count; ++i) {
        const uint8_t *from = b + (ROWS_OF_STEP > 1 ? i * p->b_stride : i * VECTOR_BYTES);
        if (ROWS_OF_STEP > 1 && i >= there)
            loaded[i] = HVX(vd0)();
        else
            loaded[i] = inside ? vector_at(from, is_aligned) : before(p->b_end, from);
        if (FLIP_B && (ROWS_OF_STEP == 1 || i < there)) loaded[i] ^= HVX(lvsplatw)(FLIP_B);
    }
}

INLINE void make_vectors(const V loaded[LOADED], V *vectors, const int columns) {
#if PACKED
    UNROLLED for (int c = 0; c < columns; ++c) vectors[c] = loaded[c];
#elif STEP > 1
    const W low = HVX(vshuffvdd)(loaded[1], loaded[0], -1);
    const W high = HVX(vshuffvdd)(loaded[3], loaded[2], -1);
    const W first = HVX(vshuffvdd)(HVX(lo)(high), HVX(lo)(low), -2);
    const W last = HVX(vshuffvdd)(HVX(hi)(high), HVX(hi)(low), -2);
    const V all[] = {HVX(lo)(first), HVX(hi)(first), HVX(lo)(last), HVX(hi)(last)};
    UNROLLED for (int c = 0; c < columns; ++c) vectors[c] = all[c];
#else
    UNROLLED for (int c = 0; c < columns; ++c) {
        const W both = HVX(vunpackuh)(loaded[c / 2]);
        vectors[c] = c % 2 ? HVX(hi)(both) : HVX(lo)(both);
    }
#endif
}

/* One step of the first tile of a panel. */
INLINE V *first_step(
    struct tile *t, V *column_sums, const V loaded[LOADED], const struct product *p,
    const int rows, const int columns, const uint8_t *a, V *packed) {
    make_vectors(loaded, t->vectors, columns);
    UNROLLED for (int r = 0; r < rows; ++r) {
        const uint8_t *at = a + r * p->a_stride;
        t->words[r] = STEP > 1 ? *(const uint32_t *)at : *(const uint16_t *)at;
    }
    multiply(t, rows, columns, 0, 0);
    UNROLLED for (int c = 0; c < columns; ++c) {
        if (packed) *packed++ = t->vectors[c];
        if (COLUMN_SUMS)
            column_sums[c] = STEP > 1 ? HVX(vrmpyub_acc)(column_sums[c], t->vectors[c], 0x01010101)
                                      : HVX(vaddw)(column_sums[c], t->vectors[c]);
    }
    return packed;
}

/* The tile of the first rows at column x, from B as it is. Its vectors go to `packed`, if they are
   kept. */
INLINE void first_tile(
    const struct product *p, const int rows, const int columns, int x, const int kind, V *packed) {
    struct tile t;
    V loaded[LOADED], column_sums[COLUMNS];
    UNROLLED for (int c = 0; c < columns; ++c) {
        column_sums[c] = HVX(vd0)();
        UNROLLED for (int r = 0; r < rows; ++r) t.sums[r][c] = HVX(vd0)();
    }
    const int reach = PACKED     ? columns * VECTOR_BYTES
                      : STEP > 1 ? VECTOR_BYTES
                                 : (columns + 1) / 2 * VECTOR_BYTES;
    const int is_whole = columns * WORDS * COLUMN_BYTES % VECTOR_BYTES == 0;
    const int is_aligned = kind == WHOLE && B_ALIGNED && is_whole;
    const uint8_t *a = p->a, *b = p->b + COLUMN_BYTES * x;
    const int beyond = (int)(p->b_end - b) - reach;
    const int height = PACKED ? (p->k + STEP - 1) / STEP : p->k, to_next = ROWS_OF_STEP * p->b_stride;
    const int inside = beyond < 0 ? 0 : at_most(beyond / p->b_stride + 1, height) / ROWS_OF_STEP;
    const int some = AHEAD ? AHEAD / STEP : inside;
    for (int step = 0; step < inside; step += some) {
        const int count = at_most(some, inside - step);
        if (AHEAD && p->b_stride <= MOST_STRIDE) {
            /* The rows that follow, or the first ones of the next panel. */
            const int has_more = step + some < inside;
            const uint8_t *ahead =
                has_more ? b + some * to_next : p->b + COLUMN_BYTES * (x + columns * WORDS);
            const int left = has_more ? height - ROWS_OF_STEP * (step + some) : height;
            const int down = at_most(ROWS_OF_STEP * some, left);
            const uint64_t box = (uint64_t)p->b_stride << 32 | (unsigned)reach << 16 | down;
            if (ahead + reach <= p->b_end) __builtin_HEXAGON_Y5_l2fetch((void *)ahead, box);
        }
        load_rows(loaded, p, columns, b, 1, is_aligned, STEP);
        _Pragma("clang loop unroll_count(4)") for (int n = 0; n < count; ++n) {
            V own[LOADED];
            UNROLLED for (int i = 0; i < LOADED; ++i) own[i] = loaded[i];
            b += n + 1 < count ? to_next : 0;
            load_rows(loaded, p, columns, b, 1, is_aligned, STEP);
            packed = first_step(&t, column_sums, own, p, rows, columns, a, packed);
            a += STEP_BYTES;
        }
        b += to_next;
    }
    ROLLED for (int left = p->k - STEP * inside; left > 0; left -= STEP) {
        load_rows(loaded, p, columns, b, 0, 0, left);
        packed = first_step(&t, column_sums, loaded, p, rows, columns, a, packed);
        a += STEP_BYTES, b += to_next;
    }
    if (packed)
        for (int step = (p->k + STEP - 1) / STEP; step < p->steps; ++step)
            UNROLLED for (int c = 0; c < columns; ++c) *packed++ = HVX(vd0)();
    if (COLUMN_TERMS)
        UNROLLED for (int c = 0; c < columns; ++c) {
            V own = HVX(lvsplatw)(p->column_more);
            if (COLUMN_SUMS) own += column_sums[c] * HVX(lvsplatw)(p->column_by);
            if (p->bias) own += (V) * (const VU *)(p->bias + x + c * WORDS);
            *(VU *)(p->column_terms + x + c * WORDS) = (VU)own;
        }
    store(&t, p, rows, columns, 0, x, kind);
}

/* Has L1 fetch the lines of `count` rows: a share of them at each step of a group. LLVM moves no
   load past a fetch, and two in a row would cost a packet. */
INLINE void fetch(const struct product *p, const int count, const int step, const uint8_t *from) {
    UNROLLED for (int r = 0; r < count; ++r) if (r * GROUP / count == step)
        __builtin_prefetch(from + r * p->a_stride);
}

static void fetch_all(const struct product *p) {
    const int bytes = ELEMENT_BYTES * p->k;
    for (int y = 0; y < p->m; ++y)
        for (int at = 0; at < bytes; at += L1_LINE_BYTES)
            __builtin_prefetch(p->a + y * p->a_stride + at);
}

/* The other tiles of `panels` at column x, whose vectors begin at `packed`; if they are in place, all
   tiles. */
INLINE void other_tiles(
    const struct product *p, const int rows, const int columns, int x, const int panels,
    const int kind, const V *packed) {
    struct tile t;
    const int groups = p->steps / GROUP, first = IN_PLACE ? 0 : rows;
    if (p->m <= first) return;
    int y = at_most(first, p->m - rows), panel = 0;
    const uint8_t *a = p->a + y * p->a_stride;
    const V *b = packed;
    load(&t, p, rows, columns, a, b, 0);
    multiply(&t, rows, columns, 0, 1);
    load(&t, p, rows, columns, a, b, 1);
    /* Panels share the rows to fetch, if it is known how many they are: loops must be unrolled. */
    const int shares = __builtin_constant_p(panels) ? panels : 1;
    const int fetched = FETCHES ? (rows + shares - 1) / shares : 0;
    for (int left = panels * ((p->m - first + rows - 1) / rows); left; --left) {
        const uint8_t *ahead = a + (rows + (shares > 1 ? panel * fetched : 0)) * p->a_stride;
        const int at = y, column = x + panel * columns * WORDS;
        /* Behind the last tile: some tile again, whose products are not used. */
        const int is_last = panel == panels - 1;
        panel = is_last ? 0 : panel + 1;
        y = is_last ? at_most(y + rows, p->m - rows) : y;
        const V *next_b = is_last ? packed : b + to_next_panel(p, columns);
        const uint8_t *next_a = p->a + y * p->a_stride;
        for (int group = 1; group < groups; ++group) {
            UNROLLED for (int step = 1; step <= GROUP; ++step) {
                fetch(p, fetched, step - 1, ahead);
                multiply(&t, rows, columns, step % 2, 0);
                load(&t, p, rows, columns, a, b, step + 1);
            }
            a += STEP_BYTES * GROUP, b += GROUP * to_next_step(p, columns), ahead += STEP_BYTES * GROUP;
        }
        UNROLLED for (int step = 1; step < GROUP; ++step) {
            fetch(p, fetched, step, ahead);
            multiply(&t, rows, columns, step % 2, 0);
            if (step + 1 < GROUP) load(&t, p, rows, columns, a, b, step + 1);
        }
        store(&t, p, rows, columns, at, column, kind);
        a = next_a, b = next_b;
        load(&t, p, rows, columns, a, b, 0);
        multiply(&t, rows, columns, 0, 1);
        load(&t, p, rows, columns, a, b, 1);
        /* Keeps the loads before the jump: else LLVM moves them behind it, where nothing hides them. */
        __asm__ volatile("");
    }
}

/* `panels` at column x, of `columns` vectors each. */
INLINE void panels_at(
    const struct product *p, const int rows, const int columns, int x, const int panels,
    const int kind, V *packed) {
    if (IN_PLACE) {
        other_tiles(p, rows, columns, x, panels, kind, (const V *)p->b + x / WORDS);
        return;
    }
    for (int panel = 0; panel < panels; ++panel)
        first_tile(
            p, rows, columns, x + panel * columns * WORDS, kind,
            packed ? packed + panel * p->steps * columns : packed);
    if (packed) other_tiles(p, rows, columns, x, panels, kind, packed);
}

/* All columns, in tiles of that many rows: whole panels, then the rest of them. */
INLINE void all_panels(const struct product *p, const int rows, V *packed) {
    const int across = COLUMNS * WORDS, panels = p->n / across;
    if (WALKS_ROWS && panels)
        panels_at(p, rows, COLUMNS, 0, panels, WHOLE, packed);
    else
        for (int panel = 0; panel < panels; ++panel)
            panels_at(p, rows, COLUMNS, panel * across, 1, WHOLE, packed);
    const int last = LAST_COLUMNS * WORDS;
    for (int x = panels * across; x < p->n; x += last) {
        if (p->n >= last)
            panels_at(p, rows, LAST_COLUMNS, at_most(x, p->n - last), 1, ANYWHERE, packed);
        else
            panels_at(p, rows, LAST_COLUMNS, x, 1, PART, packed);
    }
}

/* Words that are there for each column. */
static void copy_words(int32_t *to, const uint8_t *from, int count) {
    uint8_t room[VECTOR_BYTES];
    const uint8_t *end = from + 4 * count;
    from = of_a_vector(from, &end, room);
    for (int n = 0; n < count; n += WORDS) *(V *)(to + n) = before(end, from + 4 * n);
}

/* How many of `m` rows lie in memory with all of their vectors. */
INLINE int whole_rows(int m, int stride, int bytes) {
    const int beyond = (m - 1) * stride + bytes - rounded_up(bytes, VECTOR_BYTES);
    return beyond < 0 ? 0 : at_most(beyond / (stride ? stride : 1) + 1, m);
}

/* Rows of A from `first` on, each of whole vectors. */
static void copy_a(
    V *restrict to, const uint8_t *a, int a_stride, int first, int m, int bytes, int flipped) {
    uint8_t room[VECTOR_BYTES];
    const uint8_t *end = a + (m - 1) * a_stride + bytes;
    a = of_a_vector(a, &end, room);
    const V flip = HVX(lvsplatw)(flipped);
    const int whole = whole_rows(m, a_stride, bytes);
    int y = first;
    for (; y < whole; ++y)
        for (int at = 0; at < bytes; at += VECTOR_BYTES)
            *to++ = (V) * (const VU *)(a + y * a_stride + at) ^ flip;
    for (; y < m; ++y)
        for (int at = 0; at < bytes; at += VECTOR_BYTES)
            *to++ = before(end, a + y * a_stride + at) ^ flip;
#if PACKED
    /* Behind the elements of a row are zeros, for its last step is multiplied with anything. */
    const int vectors = (bytes + VECTOR_BYTES - 1) / VECTOR_BYTES;
    const V mask = first_bytes(bytes - (vectors - 1) * VECTOR_BYTES);
    for (y = m - first; y; --y, to -= vectors) to[-1] = HVX(vand)(to[-1], mask);
#endif
}

/* The sums of each of WORDS vectors: neighbours are added in a tree. */
#define TREE(name, of, half)                                                       \
    INLINE V name(const V *parts) {                                                \
        W pair = HVX(vshuffvdd)(of(parts + half), of(parts), -4 * half);           \
        return HVX(vaddw)(HVX(lo)(pair), HVX(hi)(pair));                           \
    }
INLINE V tree_of_1(const V *parts) { return *parts; }
TREE(tree_of_2, tree_of_1, 1)
TREE(tree_of_4, tree_of_2, 2)
TREE(tree_of_8, tree_of_4, 4)
TREE(tree_of_16, tree_of_8, 8)
TREE(tree_of_32, tree_of_16, 16)

#if ROW_TERMS
/* A vector of elements of A, added to sums of words. */
INLINE V added_elements(V sum, V some) {
#if STEP > 1
    return SIGNED_A ? HVX(vrmpybusv_acc)(sum, HVX(lvsplatw)(0x01010101), some)
                    : HVX(vrmpyub_acc)(sum, some, 0x01010101);
#else
    const V low = HVX(vand)(some, HVX(lvsplatw)(0xFFFF)), high = HVX(vlsrw)(some, 16);
    return HVX(vaddw)(sum, HVX(vaddw)(low, high));
#endif
}

/* The sum of a row of A in words; if it is not `whole`, its vectors do not lie in memory up to `end`. */
INLINE V sum_of_row(const uint8_t *row, const uint8_t *end, int whole, int bytes) {
    const int last = (bytes - 1) / VECTOR_BYTES * VECTOR_BYTES;
    V sum = HVX(vd0)();
    for (int at = 0; at < last; at += VECTOR_BYTES)
        sum = added_elements(sum, (V) * (const VU *)(row + at));
    const V some = whole ? (V) * (const VU *)(row + last) : before(end, row + last);
    return added_elements(sum, HVX(vand)(some, first_bytes(bytes - last)));
}

/* What is added to the sums of each row. The first `whole` ones lie in memory with all vectors. */
static void sum_rows(const struct product *p, int whole, V *parts, V *terms) {
    const int bytes = ELEMENT_BYTES * p->k;
    const uint8_t *end = p->a + (p->m - 1) * p->a_stride + bytes;
    for (int y = 0; y < p->m; y += WORDS) {
        const uint8_t *a = p->a + y * p->a_stride;
        if (y + WORDS <= whole)
            _Pragma("clang loop unroll_count(4)") for (int r = 0; r < WORDS; ++r) parts[r] =
                sum_of_row(a + r * p->a_stride, end, 1, bytes);
        else
            for (int r = 0; r < at_most(WORDS, p->m - y); ++r) parts[r] =
                sum_of_row(a + r * p->a_stride, end, y + r < whole, bytes);
        *terms++ = tree_of_32(parts) * HVX(lvsplatw)(p->row_by);
    }
}
#endif

#if FEW
/* The last FEW columns, one by one: vectors of elements of a row of A and of a column of B. */
enum { SHARE = FEW > 4 ? 8 : FEW > 2 ? 4 : FEW, ROWS_OF_TREE = WORDS / SHARE };
enum { FETCHED_ROWS = 8 };

/* Sums of rows of A, `inside` of which lie in memory with all of their vectors, and `tail` has the
   others; of columns that lie in whole vectors, too. Of a row there are SHARE. */
static void sums_along(
    const uint8_t *a, int a_stride, int m, int inside, const V *tail, const V *columns,
    const int vectors, V *parts, V *sums) {
    for (int y = 0; y < m; y += ROWS_OF_TREE) {
        _Pragma("clang loop unroll_count(2)") for (int r = 0; r < ROWS_OF_TREE; ++r) {
            const int at = at_most(y + r, m - 1);
            const VU *row = (const VU *)(at < inside ? a + at * a_stride
                                                     : (const uint8_t *)(tail + (at - inside) * vectors));
            ALONG own[FEW] = {0};
            for (int n = 0; n < vectors; ++n) {
                const V some = (V)row[n];
                UNROLLED for (int c = 0; c < FEW; ++c) own[c] =
                    ADDED_ALONG(own[c], some, columns[c * vectors + n]);
            }
            UNROLLED for (int c = 0; c < FEW; ++c) parts[r * SHARE + c] =
                STEP > 1 ? *(V *)&own[c] : HVX(vaddw)(((V *)&own[c])[0], ((V *)&own[c])[1]);
        }
        *sums++ = tree_of_32(parts);
    }
}

/* The columns of B that begin at `b`, in `vectors` each: behind their elements are zeros. */
static void copy_columns(ELEMENT *restrict to, const uint8_t *b, int b_stride, int k, int vectors) {
    const int across = vectors * VECTOR_BYTES / ELEMENT_BYTES;
    for (int n = 0; n < FEW * vectors; ++n) ((V *)to)[n] = HVX(vd0)();
    for (int n = 0; n < k; ++n) {
        __builtin_prefetch(b + (n + FETCHED_ROWS) * b_stride);
        UNROLLED for (int c = 0; c < FEW; ++c) to[c * across + n] =
            ((const ELEMENT *)(b + n * b_stride))[c];
    }
}
#endif

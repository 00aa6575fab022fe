/* The loops whose times on silicon are public, written anew from what their sources describe. The
   benchmark says which one it wants (LOOP), on how many vectors or rounds (COUNT), in how many
   tasks (TASKS), with how many vectors of weights (WEIGHTS).
   Operations: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44. */
typedef int V __attribute__((vector_size(128), aligned(128)));
typedef int W __attribute__((vector_size(256), aligned(128)));
#define HVX(name) __builtin_HEXAGON_V6_##name##_128B
#define EIGHT(i) _Pragma("unroll") for (int i = 0; i < 8; i++)

enum loop { VRMPYACC, VRMPY_VADD, VRMPY, VMPY, VADD, ADD, READ, WRITE, COPY, CONVOLVE, STAGED };

int halide_do_par_for(void *context, int (*task)(void *, int, uint8_t *), int min, int extent,
                      uint8_t *closure);
void *HAP_request_VTCM(unsigned bytes, unsigned single_page);
int HAP_release_VTCM(void *memory);

typedef struct {
    const V *a, *b;
    V *c;
} vectors;

/* COUNT rounds of eight independent sums of products. */
static inline void issue(vectors v) {
    V x[8], y[8], sums[8];
    EIGHT(i) x[i] = v.a[i], y[i] = v.b[i], sums[i] = HVX(vd0)();
    for (int n = 0; n < COUNT; n++) {
        if (LOOP == VRMPYACC) {
            EIGHT(i) sums[i] = HVX(vrmpybusv_acc)(sums[i], x[i], y[i]);
        } else { /* operands may change: else the products would be made once */
            EIGHT(i) __asm__("" : "+v"(x[i]), "+v"(y[i]));
            EIGHT(i) sums[i] = HVX(vaddw)(sums[i], HVX(vrmpybusv)(x[i], y[i]));
        }
    }
    EIGHT(i) v.c[i] = sums[i];
}

/* One operation on each pair of vectors, or what memory alone can do. */
static inline void operate(const V *restrict a, const V *restrict b, V *restrict c, int count) {
    V sum = HVX(vd0)();
    for (int n = 0; n < count; n++) {
        if (LOOP == VRMPY) c[n] = HVX(vrmpyubv)(a[n], b[n]);
        if (LOOP == VMPY) ((W *)c)[n] = HVX(vmpybusv)(a[n], b[n]);
        if (LOOP == VADD) ((W *)c)[n] = HVX(vaddubh)(a[n], b[n]);
        if (LOOP == ADD) c[n] = HVX(vaddb)(a[n], b[n]);
        if (LOOP == READ) sum = HVX(vaddw)(sum, a[n]);
        if (LOOP == WRITE) c[n] = *b;
        if (LOOP == COPY) c[n] = a[n];
    }
    if (LOOP == READ) *c = sum;
}

static int part(void *context, int number, uint8_t *closure) {
    const vectors *v = (const vectors *)closure;
    int count = COUNT / TASKS, first = number * count;
    int results = LOOP == READ ? number : LOOP == VMPY || LOOP == VADD ? 2 * first : first;
    operate(v->a + first, LOOP == WRITE ? v->b : v->b + first, v->c + results, count);
    return 0;
}

/* Element by element, as a loop without a schedule: not vectorized, and neither memcpy nor memset. */
#define SET_ELEMENTS(type, to, value, count)  \
    for (int i_ = 0; i_ < (count); i_++) {    \
        type element = (value);               \
        __asm__ volatile("" : "+r"(element)); \
        ((type *)(to))[i_] = element;         \
    }
#define COPY_ELEMENTS(type, to, from, count) \
    SET_ELEMENTS(type, to, ((const type *)(from))[i_], count)

/* `count` vectors, each times all WEIGHTS. */
static inline void convolve(const V *restrict a, const V *restrict weights, V *restrict c,
                            int count) {
    for (int n = 0; n < count; n++) {
        SET_ELEMENTS(int32_t, c + n, 0, 32)
        V sum = c[n];
        for (int w = 0; w < WEIGHTS; w++) sum = HVX(vrmpyubv_acc)(sum, a[n], weights[w]);
        c[n] = sum;
    }
}

/* The same in VTCM, half of the vectors at a time. */
static inline int convolve_staged(vectors v) {
    enum { HALF = COUNT / 2 };
    V *vtcm = HAP_request_VTCM((2 * HALF + WEIGHTS) * sizeof(V), 1);
    if (!vtcm) return OUT_OF_MEMORY;
    V *a = vtcm, *c = a + HALF, *weights = c + HALF;
    COPY_ELEMENTS(uint8_t, weights, v.b, WEIGHTS * 128)
    for (int half = 0; half < 2; half++) {
        COPY_ELEMENTS(uint8_t, a, v.a + half * HALF, HALF * 128)
        convolve(a, weights, c, HALF);
        COPY_ELEMENTS(int32_t, v.c + half * HALF, c, HALF * 32)
    }
    return HAP_release_VTCM(vtcm);
}

static inline int run(const void *a, const void *b, void *c) {
    vectors v = {a, b, c};
    if (LOOP == STAGED) return convolve_staged(v);
    if (LOOP == CONVOLVE)
        convolve(a, b, c, COUNT);
    else if (LOOP == VRMPYACC || LOOP == VRMPY_VADD)
        issue(v);
    else if (TASKS > 1)
        return halide_do_par_for((void *)0, part, 0, TASKS, (uint8_t *)&v);
    else
        operate(a, b, c, COUNT);
    return 0;
}

/* What comes before the loops of a kernel: Halide's calling convention (HalideRuntime.h), memory
   for the time of a call. */
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;

typedef struct {
    int32_t min, extent, stride;
    uint32_t flags;
} halide_dimension_t;

typedef struct halide_buffer_t {
    uint64_t device;
    const void *device_interface;
    uint8_t *host;
    uint64_t flags;
    uint32_t type;
    int32_t dimensions;
    halide_dimension_t *dim;
    void *padding;
} halide_buffer_t;

enum { CONSTRAINT_VIOLATED = -8, OUT_OF_MEMORY = -11, UNALIGNED_HOST = -24 };

__attribute__((malloc)) void *halide_malloc(void *context, unsigned bytes);
void halide_free(void *context, void *memory);

struct held {
    int count;
    void *memory[8];
};

static inline void release(struct held *held) {
    while (held->count) halide_free((void *)0, held->memory[--held->count]);
}

/* Memory on a vector boundary until the kernel returns; at most eight pieces. */
#define scratch(bytes)                                              \
    ({                                                              \
        void *memory_ = halide_malloc((void *)0, (unsigned)(bytes)); \
        if (!memory_) return OUT_OF_MEMORY;                         \
        held.memory[held.count++] = memory_;                        \
        __builtin_assume_aligned(memory_, VECTOR_BYTES);            \
    })

#define clamped(value, least, most) ((value) < (least) ? (least) : (value) > (most) ? (most) : (value))

/* Calls of functions on a DSP, queued on the host: C99, one file, no thread of its own.
 *
 * Allocations, releases, fetches and calls are only queued. A copy or a synchronization sends what waits,
 * in order, in one message: a crossing. Handles name buffers and functions; the host chooses those
 * of buffers, so that an allocation needs no crossing. The DSP checks every handle and size: what
 * is wrong ends the queue and is answered at the next flush, which leaves the context usable.
 *
 * A context belongs to one thread at a time. Memory given to a function stays the caller's.
 */
#ifndef HVXTUNE_NETWORK_H
#define HVXTUNE_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#define HVXTUNE_NETWORK_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum { HVXTUNE_DIMENSIONS = 6, HVXTUNE_ARGUMENTS = 16, HVXTUNE_BUFFERS = 1024 };

/* What functions here return, and the DSP answers. */
enum hvxtune_status {
    HVXTUNE_OK,
    HVXTUNE_BAD_BUFFER,   /* a handle that names no buffer, or no longer */
    HVXTUNE_BAD_FUNCTION, /* a number of no function, or too few or many arguments for it */
    HVXTUNE_BAD_SIZE,     /* more than a buffer holds, less than a function takes, nothing at all */
    HVXTUNE_NO_MEMORY,    /* on the DSP, or on the host */
    HVXTUNE_CALL_FAILED,  /* the function returned other than 0: `result` of hvxtune_answer */
    HVXTUNE_BAD_MESSAGE,  /* of another version, or garbled: the context is of no more use */
    HVXTUNE_NO_TRANSPORT  /* nothing was sent or received: likewise */
};

/* Takes messages to the DSP and back: on a phone a FastRPC session, here what stands in for one.
 * Both return 0, or anything else if not all `bytes` went through. */
struct hvxtune_transport {
    void *context;
    int (*send)(void *context, const void *from, size_t bytes);
    int (*receive)(void *context, void *to, size_t bytes);
};

typedef struct hvxtune_network hvxtune_network;
typedef uint32_t hvxtune_buffer; /* 0 names none */

/* What a function gets: part of a buffer, from `offset_bytes` on. `extent` and `stride` are in
 * elements, 0 the innermost dimension; strides are not negative. */
struct hvxtune_argument {
    hvxtune_buffer buffer;
    uint32_t offset_bytes;
    uint8_t type_code; /* halide_type_t: 0 signed, 1 unsigned, 2 floating point */
    uint8_t type_bits;
    uint16_t dimensions;
    uint32_t extent[HVXTUNE_DIMENSIONS], stride[HVXTUNE_DIMENSIONS];
};

/* What crossed so far. `batches` are the crossings that ran functions; a copy is a crossing in any
 * case, which takes along what waits. `message_bytes` go both ways beside the copied ones. */
struct hvxtune_counts {
    uint64_t crossings, batches, copies_in, copies_out;
    uint64_t bytes_in, bytes_out, message_bytes, calls;
};

/* The last flush: how many queued entries were done, and what the last function returned. */
struct hvxtune_answer {
    uint32_t status, done;
    int32_t result;
};

/* The DSP as it introduced itself. */
struct hvxtune_dsp {
    uint32_t functions, alignment_bytes, memory_bytes;
};

/* A context on `transport`, which must outlive it, in `*opened`. One crossing. */
HVXTUNE_NETWORK_API int hvxtune_open(const struct hvxtune_transport *transport,
                                     hvxtune_network **opened);
/* Frees the context. What waits is dropped, and the DSP keeps its buffers until it is shut down. */
HVXTUNE_NETWORK_API void hvxtune_close(hvxtune_network *network);

/* Queues an allocation of `bytes`, aligned as the DSP's vectors are; 0 if HVXTUNE_BUFFERS are in
 * use or the queue could not be sent. Memory holds whatever it held before. */
HVXTUNE_NETWORK_API hvxtune_buffer hvxtune_alloc(hvxtune_network *network, uint32_t bytes);
/* Queues the release of `buffer`: calls that wait still have it. */
HVXTUNE_NETWORK_API int hvxtune_free(hvxtune_network *network, hvxtune_buffer buffer);
/* Queues a fetch: part of `buffer` comes from DDR to L2 while the next call runs. For what the call
 * after that reads; of several before one call the last is done. */
HVXTUNE_NETWORK_API int hvxtune_fetch(hvxtune_network *network, hvxtune_buffer buffer,
                                      uint32_t offset_bytes, uint32_t bytes);
/* Queues a call. A queue that is full is sent first. */
HVXTUNE_NETWORK_API int hvxtune_call(hvxtune_network *network, uint32_t function,
                                     const struct hvxtune_argument *arguments, uint32_t count);

/* These flush. If part of the queue fails, nothing is copied. */
HVXTUNE_NETWORK_API int hvxtune_copy_in(hvxtune_network *network, hvxtune_buffer buffer,
                                        uint32_t offset_bytes, const void *from, uint32_t bytes);
HVXTUNE_NETWORK_API int hvxtune_copy_out(hvxtune_network *network, hvxtune_buffer buffer,
                                         uint32_t offset_bytes, void *to, uint32_t bytes);
HVXTUNE_NETWORK_API int hvxtune_synchronize(hvxtune_network *network);

HVXTUNE_NETWORK_API struct hvxtune_counts hvxtune_counted(const hvxtune_network *network);
HVXTUNE_NETWORK_API struct hvxtune_answer hvxtune_answered(const hvxtune_network *network);
HVXTUNE_NETWORK_API struct hvxtune_dsp hvxtune_described(const hvxtune_network *network);

#ifdef __cplusplus
}
#endif

#endif

/* What host and DSP say to each other: little endian, fields of 32 bits, nothing padded.
 *
 * A request is followed by its queue, and that by the bytes of a copy in. The DSP answers each with
 * an answer, followed by the bytes of a copy out, or its introduction.
 */
#ifndef HVXTUNE_MESSAGES_H
#define HVXTUNE_MESSAGES_H

#include "hvxtune_network.h"

#define MESSAGE_MAGIC 0x4e565848u /* "HXVN" */
#define MESSAGE_VERSION 2u

enum { MESSAGE_QUEUE_BYTES = 1 << 16 };

enum message_request { MESSAGE_RUN, MESSAGE_COPY_IN, MESSAGE_COPY_OUT, MESSAGE_OPEN };

struct message_request_head {
    uint32_t magic, version;
    uint32_t kind;        /* enum message_request */
    uint32_t queue_bytes; /* of entries, at most MESSAGE_QUEUE_BYTES */
    uint32_t buffer, offset_bytes, bytes; /* of the copy, which follows the queue */
};

enum message_entry { MESSAGE_ALLOCATE, MESSAGE_FREE, MESSAGE_CALL, MESSAGE_FETCH };

/* An entry of the queue. A call is followed by its arguments, a fetch by its offset. */
struct message_entry_head {
    uint32_t kind;   /* enum message_entry */
    uint32_t target; /* the buffer, or the function's number */
    uint32_t count;  /* bytes to allocate or to fetch, or arguments */
};

struct message_answer_head {
    uint32_t magic;
    struct hvxtune_answer answer;
    uint32_t bytes; /* that follow */
};

#endif

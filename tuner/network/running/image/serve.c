#include "serve.h"

#include "../../../measure/harness/halide_buffer.h"
#include "buffers.h"
#include "messages.h"

enum { DRAINED_BYTES = 4096 };

struct argument {
    struct halide_buffer buffer;
    struct halide_dimension dim[HVXTUNE_DIMENSIONS];
};

static struct hvxtune_dsp dsp;
static uint32_t queue[MESSAGE_QUEUE_BYTES / 4];
static struct argument arguments[HVXTUNE_ARGUMENTS];
static void *pointers[HVXTUNE_ARGUMENTS];
static struct serve_fetch fetch; /* for the next call */

void serve_open(uint8_t *arena, uint32_t bytes, uint32_t alignment) {
    fetch = (struct serve_fetch){0};
    dsp = (struct hvxtune_dsp){serve_function_count, alignment, bytes};
    buffers_open(arena, bytes, alignment);
}

/* Bytes from the first element to the last; more than any buffer holds if that is too many. */
static uint64_t span_bytes(const struct hvxtune_argument *from) {
    uint64_t span = 1;
    for (uint32_t d = 0; d < from->dimensions; d++) {
        if (from->extent[d] == 0)
            return UINT64_MAX;
        uint64_t reach = (uint64_t)(from->extent[d] - 1) * from->stride[d];
        if (reach > UINT32_MAX)
            return UINT64_MAX;
        span += reach;
    }
    return span * (from->type_bits / 8);
}

static enum hvxtune_status fill(struct argument *to, const struct hvxtune_argument *from,
                                uint32_t least_bytes) {
    uint32_t element = from->type_bits / 8;
    uint8_t *data;
    if (from->dimensions > HVXTUNE_DIMENSIONS || element == 0 || from->offset_bytes % element)
        return HVXTUNE_BAD_SIZE;
    uint64_t span = span_bytes(from);
    enum hvxtune_status status =
        buffers_find(from->buffer, from->offset_bytes, span, &data);
    if (status != HVXTUNE_OK)
        return status;
    if (span < least_bytes)
        return HVXTUNE_BAD_SIZE;
    to->buffer = (struct halide_buffer){
        .host = data,
        .type_code = from->type_code,
        .type_bits = from->type_bits,
        .type_lanes = 1,
        .dimensions = from->dimensions,
        .dim = to->dim,
    };
    for (uint32_t d = 0; d < from->dimensions; d++)
        to->dim[d] = (struct halide_dimension){
            .extent = (int32_t)from->extent[d], .stride = (int32_t)from->stride[d]};
    return HVXTUNE_OK;
}

static enum hvxtune_status call(uint32_t number, const struct hvxtune_argument *from,
                                uint32_t count, int32_t *result) {
    if (number >= serve_function_count || serve_functions[number].count != count)
        return HVXTUNE_BAD_FUNCTION;
    const struct serve_function *called = &serve_functions[number];
    for (uint32_t i = 0; i < count; i++) {
        enum hvxtune_status status = fill(&arguments[i], &from[i], called->bytes[i]);
        if (status != HVXTUNE_OK)
            return status;
        pointers[i] = &arguments[i].buffer;
    }
    struct serve_fetch own = fetch;
    fetch = (struct serve_fetch){0};
    *result = serve_call(called->function, pointers, count, own);
    return *result == 0 ? HVXTUNE_OK : HVXTUNE_CALL_FAILED;
}

static enum hvxtune_status fetch_for_next_call(hvxtune_buffer buffer, uint32_t offset,
                                               uint32_t bytes) {
    uint8_t *data;
    enum hvxtune_status status = buffers_find(buffer, offset, bytes, &data);
    if (status == HVXTUNE_OK)
        fetch = (struct serve_fetch){data, bytes};
    return status;
}

/* Bytes that follow the head of an entry; more than there are if it is of no use. */
static uint32_t following(const struct message_entry_head *head, uint32_t left) {
    if (head->kind == MESSAGE_FETCH)
        return sizeof(uint32_t);
    if (head->kind != MESSAGE_CALL)
        return 0;
    return head->count <= HVXTUNE_ARGUMENTS
               ? head->count * (uint32_t)sizeof(struct hvxtune_argument)
               : left;
}

/* Does the entries one after the other, up to the first that fails. */
static struct hvxtune_answer run_queue(uint32_t bytes) {
    struct hvxtune_answer answer = {HVXTUNE_OK, 0, 0};
    const uint8_t *at = (const uint8_t *)queue, *end = at + bytes;
    while (at < end && answer.status == HVXTUNE_OK) {
        const struct message_entry_head *head = (const void *)at;
        uint32_t left = (uint32_t)(end - at);
        uint32_t behind = left < sizeof *head ? 0 : following(head, left);
        if (left < sizeof *head || behind > left - sizeof *head) {
            answer.status = HVXTUNE_BAD_MESSAGE;
            break;
        }
        if (head->kind == MESSAGE_ALLOCATE)
            answer.status = buffers_allocate(head->target, head->count);
        else if (head->kind == MESSAGE_FREE)
            answer.status = buffers_free(head->target);
        else if (head->kind == MESSAGE_CALL)
            answer.status = call(head->target, (const void *)(head + 1), head->count,
                                 &answer.result);
        else if (head->kind == MESSAGE_FETCH)
            answer.status = fetch_for_next_call(head->target, *(const uint32_t *)(head + 1),
                                                head->count);
        else
            answer.status = HVXTUNE_BAD_MESSAGE;
        answer.done += answer.status == HVXTUNE_OK;
        at += sizeof *head + behind;
    }
    return answer;
}

/* The bytes of a copy in that nobody takes. */
static int drain(uint32_t bytes) {
    static uint8_t nowhere[DRAINED_BYTES];
    int failed = 0;
    for (uint32_t step; bytes > 0 && !failed; bytes -= step) {
        step = bytes < DRAINED_BYTES ? bytes : DRAINED_BYTES;
        failed = serve_receive(nowhere, step);
    }
    return failed;
}

static int send_answer(struct hvxtune_answer answer, const void *from, uint32_t bytes) {
    struct message_answer_head head = {MESSAGE_MAGIC, answer, bytes};
    return serve_send(&head, sizeof head) || (bytes > 0 && serve_send(from, bytes));
}

static int refuse(void) {
    send_answer((struct hvxtune_answer){HVXTUNE_BAD_MESSAGE, 0, 0}, NULL, 0);
    return 1;
}

int serve_request(void) {
    struct message_request_head head;
    uint8_t *data = NULL;
    if (serve_receive(&head, sizeof head))
        return 1;
    if (head.magic != MESSAGE_MAGIC || head.version != MESSAGE_VERSION ||
        head.queue_bytes > sizeof queue || head.queue_bytes % 4 || head.kind > MESSAGE_OPEN)
        return refuse();
    if (head.kind == MESSAGE_OPEN && (head.bytes != sizeof dsp || head.queue_bytes != 0))
        return refuse();
    if (head.queue_bytes > 0 && serve_receive(queue, head.queue_bytes))
        return 1;
    struct hvxtune_answer answer = run_queue(head.queue_bytes);
    if (head.kind == MESSAGE_OPEN)
        return send_answer(answer, &dsp, sizeof dsp);
    if (head.kind == MESSAGE_RUN)
        return send_answer(answer, NULL, 0);
    if (answer.status == HVXTUNE_OK)
        answer.status = buffers_find(head.buffer, head.offset_bytes, head.bytes, &data);
    int good = answer.status == HVXTUNE_OK;
    if (head.kind == MESSAGE_COPY_OUT)
        return send_answer(answer, data, good ? head.bytes : 0);
    if (good ? serve_receive(data, head.bytes) : drain(head.bytes))
        return 1;
    return send_answer(answer, NULL, 0);
}

#include "hvxtune_network.h"

#include <stdlib.h>
#include <string.h>

#include "messages.h"

/* A handle is the number of a slot below, and above it how often that was taken: one that was
 * released is known from the next one in its place. */
#define SLOT_BITS 16
#define FIRST_SLOT 1u

struct hvxtune_network {
    struct hvxtune_transport transport;
    struct hvxtune_counts counts;
    struct hvxtune_answer answer;
    struct hvxtune_dsp dsp;
    uint32_t broken; /* a status that no flush mends */
    uint32_t queue_bytes, queued_calls;
    uint16_t taken[HVXTUNE_BUFFERS];
    uint8_t in_use[HVXTUNE_BUFFERS];
    uint8_t queue[MESSAGE_QUEUE_BYTES];
};

static int break_off(hvxtune_network *network, int status) {
    network->broken = (uint32_t)status;
    network->answer = (struct hvxtune_answer){(uint32_t)status, 0, 0};
    return status;
}

static int send_all(hvxtune_network *network, const void *from, size_t bytes) {
    return bytes == 0 ? 0 : network->transport.send(network->transport.context, from, bytes);
}

static int receive_all(hvxtune_network *network, void *to, size_t bytes) {
    return bytes == 0 ? 0 : network->transport.receive(network->transport.context, to, bytes);
}

/* One crossing: the queue, and a copy or the introduction of the DSP. */
static int cross(hvxtune_network *network, uint32_t kind, hvxtune_buffer buffer, uint32_t offset,
                 const void *from, void *to, uint32_t bytes) {
    if (network->broken)
        return (int)network->broken;
    struct message_request_head head = {
        MESSAGE_MAGIC, MESSAGE_VERSION, kind, network->queue_bytes, buffer, offset, bytes};
    struct message_answer_head answer;
    uint32_t calls = network->queued_calls;
    size_t queued = network->queue_bytes;
    network->queue_bytes = network->queued_calls = 0;
    if (send_all(network, &head, sizeof head) || send_all(network, network->queue, queued) ||
        (kind == MESSAGE_COPY_IN && send_all(network, from, bytes)) ||
        receive_all(network, &answer, sizeof answer))
        return break_off(network, HVXTUNE_NO_TRANSPORT);
    uint32_t expected = kind == MESSAGE_COPY_OUT || kind == MESSAGE_OPEN ? bytes : 0;
    int good = answer.answer.status == HVXTUNE_OK;
    if (answer.magic != MESSAGE_MAGIC || answer.bytes != (good ? expected : 0) ||
        answer.answer.status > HVXTUNE_BAD_MESSAGE)
        return break_off(network, HVXTUNE_BAD_MESSAGE);
    if (receive_all(network, to, answer.bytes))
        return break_off(network, HVXTUNE_NO_TRANSPORT);
    network->answer = answer.answer;
    network->counts.crossings++;
    network->counts.batches += calls > 0;
    network->counts.calls += calls;
    network->counts.message_bytes += sizeof head + queued + sizeof answer;
    network->counts.copies_in += kind == MESSAGE_COPY_IN;
    network->counts.bytes_in += kind == MESSAGE_COPY_IN ? bytes : 0;
    network->counts.copies_out += kind == MESSAGE_COPY_OUT;
    network->counts.bytes_out += kind == MESSAGE_COPY_OUT ? answer.bytes : 0;
    if (answer.answer.status == HVXTUNE_BAD_MESSAGE)
        network->broken = HVXTUNE_BAD_MESSAGE;
    return (int)answer.answer.status;
}

int hvxtune_open(const struct hvxtune_transport *transport, hvxtune_network **opened) {
    hvxtune_network *made = calloc(1, sizeof *made);
    *opened = NULL;
    if (made == NULL)
        return HVXTUNE_NO_MEMORY;
    made->transport = *transport;
    int status = cross(made, MESSAGE_OPEN, 0, 0, NULL, &made->dsp, sizeof made->dsp);
    if (status == HVXTUNE_OK)
        *opened = made;
    else
        free(made);
    return status;
}

void hvxtune_close(hvxtune_network *network) { free(network); }

/* Queues an entry with what follows it; sends what waits first if there is no room. */
static int append(hvxtune_network *network, uint32_t kind, uint32_t target, uint32_t count,
                  const void *following, size_t behind) {
    struct message_entry_head head = {kind, target, count};
    size_t needed = sizeof head + behind;
    if (network->broken)
        return (int)network->broken;
    if (needed > sizeof network->queue - network->queue_bytes) {
        int status = hvxtune_synchronize(network);
        if (status != HVXTUNE_OK)
            return status;
    }
    memcpy(network->queue + network->queue_bytes, &head, sizeof head);
    if (behind > 0)
        memcpy(network->queue + network->queue_bytes + sizeof head, following, behind);
    network->queue_bytes += (uint32_t)needed;
    network->queued_calls += kind == MESSAGE_CALL;
    return HVXTUNE_OK;
}

hvxtune_buffer hvxtune_alloc(hvxtune_network *network, uint32_t bytes) {
    for (uint32_t slot = FIRST_SLOT; slot < HVXTUNE_BUFFERS; slot++) {
        if (network->in_use[slot])
            continue;
        hvxtune_buffer handle = (uint32_t)++network->taken[slot] << SLOT_BITS | slot;
        if (append(network, MESSAGE_ALLOCATE, handle, bytes, NULL, 0) != HVXTUNE_OK)
            return 0;
        network->in_use[slot] = 1;
        return handle;
    }
    return 0;
}

int hvxtune_free(hvxtune_network *network, hvxtune_buffer buffer) {
    uint32_t slot = buffer & ((1u << SLOT_BITS) - 1);
    int status = append(network, MESSAGE_FREE, buffer, 0, NULL, 0);
    if (slot < HVXTUNE_BUFFERS && network->taken[slot] == buffer >> SLOT_BITS)
        network->in_use[slot] = 0;
    return status;
}

int hvxtune_fetch(hvxtune_network *network, hvxtune_buffer buffer, uint32_t offset_bytes,
                  uint32_t bytes) {
    return append(network, MESSAGE_FETCH, buffer, bytes, &offset_bytes, sizeof offset_bytes);
}

int hvxtune_call(hvxtune_network *network, uint32_t function,
                 const struct hvxtune_argument *arguments, uint32_t count) {
    if (count > HVXTUNE_ARGUMENTS)
        return HVXTUNE_BAD_FUNCTION;
    return append(network, MESSAGE_CALL, function, count, arguments, count * sizeof *arguments);
}

int hvxtune_copy_in(hvxtune_network *network, hvxtune_buffer buffer, uint32_t offset_bytes,
                    const void *from, uint32_t bytes) {
    return cross(network, MESSAGE_COPY_IN, buffer, offset_bytes, from, NULL, bytes);
}

int hvxtune_copy_out(hvxtune_network *network, hvxtune_buffer buffer, uint32_t offset_bytes,
                     void *to, uint32_t bytes) {
    return cross(network, MESSAGE_COPY_OUT, buffer, offset_bytes, NULL, to, bytes);
}

int hvxtune_synchronize(hvxtune_network *network) {
    if (network->queue_bytes == 0)
        return (int)network->broken;
    return cross(network, MESSAGE_RUN, 0, 0, NULL, NULL, 0);
}

struct hvxtune_counts hvxtune_counted(const hvxtune_network *network) { return network->counts; }
struct hvxtune_answer hvxtune_answered(const hvxtune_network *network) { return network->answer; }
struct hvxtune_dsp hvxtune_described(const hvxtune_network *network) { return network->dsp; }

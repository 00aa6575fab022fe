/* A transport straight into the DSP's side, in one process, and functions to call. */
#include <string.h>

#include "../../../../../tuner/measure/harness/halide_buffer.h"
#include "../../../../../tuner/network/running/image/serve.h"

enum { ARENA_BYTES = 1 << 16, ALIGNMENT = 128, PIPE_BYTES = 1 << 18 };

struct pipe {
    uint8_t bytes[PIPE_BYTES];
    size_t begin, end;
};

static struct pipe to_dsp, to_host;
static _Alignas(ALIGNMENT) uint8_t arena[ARENA_BYTES];
static int fails, garbles;

static int put(struct pipe *pipe, const void *from, size_t bytes) {
    if (bytes > PIPE_BYTES - pipe->end)
        return -1;
    memcpy(pipe->bytes + pipe->end, from, bytes);
    pipe->end += bytes;
    return 0;
}

static int take(struct pipe *pipe, void *to, size_t bytes) {
    if (bytes > pipe->end - pipe->begin)
        return -1;
    memcpy(to, pipe->bytes + pipe->begin, bytes);
    pipe->begin += bytes;
    if (pipe->begin == pipe->end)
        pipe->begin = pipe->end = 0;
    return 0;
}

int serve_receive(void *to, uint32_t bytes) { return take(&to_dsp, to, bytes); }
int serve_send(const void *from, uint32_t bytes) { return put(&to_host, from, bytes); }

static struct serve_fetch latest_fetch;

int serve_call(int (*function)(void), void *const *pointers, uint32_t count,
               struct serve_fetch fetch) {
    latest_fetch = fetch;
    if (count == 1)
        return ((int (*)(void *))function)(pointers[0]);
    return ((int (*)(void *, void *, void *))function)(pointers[0], pointers[1], pointers[2]);
}

static int add(const struct halide_buffer *a, const struct halide_buffer *b,
               struct halide_buffer *sum) {
    for (int32_t i = 0; i < sum->dim[0].extent; i++)
        sum->host[i * sum->dim[0].stride] =
            a->host[i * a->dim[0].stride] + b->host[i * b->dim[0].stride];
    return 0;
}

static int refuse(const struct halide_buffer *a) { return -(int)a->host[0]; }

static const uint32_t eight[] = {8, 8, 8};
const struct serve_function serve_functions[] = {
    {(int (*)(void))add, 3, eight},
    {(int (*)(void))refuse, 1, eight},
};
const uint32_t serve_function_count = 2;

static int send_to_dsp(void *context, const void *from, size_t bytes) {
    (void)context;
    return fails ? -1 : put(&to_dsp, from, bytes);
}

static int receive_from_dsp(void *context, void *to, size_t bytes) {
    (void)context;
    if (to_host.begin == to_host.end && serve_request())
        return -1;
    if (garbles)
        to_host.bytes[to_host.begin] ^= 1;
    return take(&to_host, to, bytes);
}

/* A DSP that was just started. */
HVXTUNE_NETWORK_API void loopback_open(struct hvxtune_transport *transport) {
    to_dsp.begin = to_dsp.end = to_host.begin = to_host.end = 0;
    fails = garbles = 0;
    serve_open(arena, ARENA_BYTES, ALIGNMENT);
    *transport = (struct hvxtune_transport){0, send_to_dsp, receive_from_dsp};
}

/* What the last call was to fetch: its bytes, and the first of them. */
HVXTUNE_NETWORK_API uint32_t loopback_fetched(uint8_t *first) {
    if (latest_fetch.bytes > 0)
        *first = latest_fetch.begin[0];
    return latest_fetch.bytes;
}

HVXTUNE_NETWORK_API void loopback_fail(void) { fails = 1; }
HVXTUNE_NETWORK_API void loopback_garble(void) { garbles = 1; }

/* What the DSP makes of `bytes`: the status of its answer, -1 without one. */
HVXTUNE_NETWORK_API int loopback_receives(const void *bytes, size_t count) {
    uint32_t answer[5];
    put(&to_dsp, bytes, count);
    serve_request();
    return take(&to_host, answer, sizeof answer) ? -1 : (int)answer[1];
}

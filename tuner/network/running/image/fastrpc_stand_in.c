/* A transport that stands in for FastRPC: a pipe each way to a simulator, and a time limit.
 *
 * It crosses as FastRPC does, one request and its answer at a time, but costs nothing like it.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "hvxtune_network.h"

struct fastrpc_stand_in {
    int to_dsp, from_dsp; /* ends of pipes; not blocking */
    int64_t limit_ms;     /* from a request to its answer */
    int64_t deadline_ms;  /* of the monotonic clock */
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int wait_for(const struct fastrpc_stand_in *pipes, int descriptor, short events) {
    int64_t left = pipes->deadline_ms - now_ms();
    struct pollfd one = {descriptor, events, 0};
    return left > 0 && poll(&one, 1, left > 60000 ? 60000 : (int)left) >= 0 ? 0 : -1;
}

static int moved_on(ssize_t moved) { return moved < 0 && (errno == EAGAIN || errno == EINTR); }

static int send_by_pipe(void *context, const void *from, size_t bytes) {
    struct fastrpc_stand_in *pipes = context;
    const uint8_t *at = from;
    pipes->deadline_ms = now_ms() + pipes->limit_ms;
    while (bytes > 0) {
        ssize_t moved = write(pipes->to_dsp, at, bytes);
        if (moved > 0) {
            at += moved;
            bytes -= (size_t)moved;
        } else if (!moved_on(moved) || wait_for(pipes, pipes->to_dsp, POLLOUT)) {
            return -1;
        }
    }
    return 0;
}

static int receive_by_pipe(void *context, void *to, size_t bytes) {
    const struct fastrpc_stand_in *pipes = context;
    uint8_t *at = to;
    while (bytes > 0) {
        ssize_t moved = read(pipes->from_dsp, at, bytes);
        if (moved > 0) {
            at += moved;
            bytes -= (size_t)moved;
        } else if (!moved_on(moved) || wait_for(pipes, pipes->from_dsp, POLLIN)) {
            return -1;
        }
    }
    return 0;
}

/* `transport` by the pipes in `pipes`, with `seconds` for each crossing. */
HVXTUNE_NETWORK_API void fastrpc_stand_in(struct fastrpc_stand_in *pipes, int to_dsp, int from_dsp,
                                          double seconds, struct hvxtune_transport *transport) {
    *pipes = (struct fastrpc_stand_in){to_dsp, from_dsp, (int64_t)(seconds * 1000), 0};
    *transport = (struct hvxtune_transport){pipes, send_by_pipe, receive_by_pipe};
}

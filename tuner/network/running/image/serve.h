/* The DSP's side of messages.h: takes a request, does it, answers. Knows no system. */
#ifndef HVXTUNE_SERVE_H
#define HVXTUNE_SERVE_H

#include "hvxtune_network.h"

/* A function of the image: how many buffers it takes, and at least how many bytes of each. */
struct serve_function {
    int (*function)(void);
    uint32_t count;
    const uint32_t *bytes;
};

/* The image, made by tuner/network/running/image/linking.py. */
extern const struct serve_function serve_functions[];
extern const uint32_t serve_function_count;

/* What comes to L2 while a call runs. */
struct serve_fetch {
    const uint8_t *begin;
    uint32_t bytes;
};

/* Of the system: 0 if all bytes went through; a call with `count` of HVXTUNE_ARGUMENTS pointers. */
int serve_receive(void *to, uint32_t bytes);
int serve_send(const void *from, uint32_t bytes);
int serve_call(int (*function)(void), void *const *pointers, uint32_t count,
               struct serve_fetch fetch);

/* Takes the arena of buffers (buffers.h). */
void serve_open(uint8_t *arena, uint32_t bytes, uint32_t alignment);

/* One request and its answer. Not 0 if there was none, or nothing more can be understood. */
int serve_request(void);

#endif

/* The parts of the harness and what each offers the others. */
#ifndef HVXTUNE_HARNESS_H
#define HVXTUNE_HARNESS_H

#include "image.h"

/* The most arguments call_candidate can pass. */
#define MAX_ARGUMENTS IMAGE_BUFFERS

/* Calls the candidate with `count` arguments; `arguments` has room for MAX_ARGUMENTS and is one
 * the candidate can reach. The region that is counted begins with the call itself and ends with
 * the return from it. Registers that carry no argument hold poison. */
int call_candidate(void *const *arguments, uint32_t count);

/* Called around a parallel loop and before each of its tasks: on a simulator, which runs tasks one
 * by one, they tell apart what contexts would do at the same time. */
void hvxtune_loop_begins(void);
void hvxtune_task_begins(void);
void hvxtune_loop_ends(void);

/* Makes the buffers of `one` reachable, and those of no other case, until it is closed. Whatever
 * a call does it can do to its own case only: work cannot be moved out of the timed call. Heap,
 * VTCM and stack hold the poison of `one` and nothing that an earlier call left. */
uint8_t *open_case(const struct image_header *image, const struct image_case *one);
void close_case(const struct image_case *one);

/* The part of `one` as its argument `number` is handed out: on a simulator each argument has a view
 * of its own, far from all others, so that a wild access does not fall into another buffer. */
uint8_t *view_of(uint8_t *part, const struct image_case *one, uint32_t number);

/* Runs every case of the image; 0 if each call returned 0. Needs a heap and VTCM in place. */
int run_cases(struct image_header *image, void *heap, void *vtcm);

/* Memory the candidate may ask for: freed in any order, given back once the latest is free. */
struct arena {
    uint8_t *base;
    uint32_t bytes;
    uint32_t used;
    uint32_t last; /* offset of the latest block's header plus one; 0 if none */
    uint32_t alignment;
    uint32_t most; /* greatest `used` since it was opened; kept with KEEP_ARENA_MOST only */
#ifdef KEEP_ARENA_MOST
    uint32_t poison; /* number of the pattern plus one that fresh blocks are filled with; 0: none */
#endif
};

#ifdef KEEP_ARENA_MOST
void poison_words(uint32_t *at, uint32_t bytes, uint32_t poison);
#endif

void arena_open(struct arena *arena, void *base, uint32_t bytes, uint32_t alignment);
void *arena_take(struct arena *arena, uint32_t bytes); /* NULL if it does not fit */
void arena_give_back(struct arena *arena, void *block);

/* Where the runtime functions find memory and leave messages during a call. */
struct runtime {
    struct arena heap;
    struct arena vtcm;
    struct image_report *report;
};

extern struct runtime runtime;

#endif

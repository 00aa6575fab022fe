/* A candidate as a shared object: runs the cases of an image and times the first.
 *
 * Each case lies at the same address in turn, and its memory goes to the host after its first
 * call. The timed calls follow the first case's, on the same inputs with the outputs made unlike
 * what they must become: a call that leaves out its work is noticed.
 */
#include <stddef.h>

#include "dsp.h"
#include "harness.h"

enum { UNLIKE = 0xA5, CALLS_TO_BE_SURE = 3, EMPTY_CALLS = 5, STACK_POISONED = 4096 };

typedef int entry_point(void *, void *, void *, void *, void *, void *, void *, void *, void *,
                        void *, void *, void *, void *, void *, void *, void *);
entry_point hvxtune_entry, nothing;
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

static struct dsp_run *now;
static uint32_t opened; /* cases so far */
static const struct image_case *current;

/* One task follows the other here: nothing to mark. */
void hvxtune_loop_begins(void) {}
void hvxtune_task_begins(void) {}
void hvxtune_loop_ends(void) {}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* A candidate that does nothing, called and timed as others are: all it takes is the harness's. */
__attribute__((noinline)) int nothing(void *a, void *b, void *c, void *d, void *e, void *f, void *g,
                                      void *h, void *i, void *j, void *k, void *l, void *m, void *n,
                                      void *o, void *p) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    (void)i, (void)j, (void)k, (void)l, (void)m, (void)n, (void)o, (void)p;
    __asm__ volatile("");
    return 0;
}

/* By a pointer and never inlined: the same instructions, whichever candidate it is. */
static __attribute__((noinline)) int call(entry_point *entry, void *const *a) {
    int result = entry(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
                       a[12], a[13], a[14], a[15]);
    now->heap_used = larger(now->heap_used, runtime.heap.most);
    now->vtcm_used = larger(now->vtcm_used, runtime.vtcm.most);
    return result;
}

static __attribute__((noinline)) int call_again(entry_point *entry, void *const *arguments) {
    arena_open(&runtime.heap, now->heap, now->image->heap_bytes, now->image->alignment_bytes);
    arena_open(&runtime.vtcm, now->vtcm, now->image->vtcm_bytes, now->image->alignment_bytes);
    return call(entry, arguments);
}

static uint64_t timed_call(entry_point *entry, void *const *arguments, int *result) {
    uint64_t begin = now->clock();
    *result = call_again(entry, arguments);
    return now->clock() - begin;
}

/* The least of a few calls, before anything of the candidate has run: what is subtracted from
 * samples is never more than they hold. */
static uint64_t cycles_of_nothing(void) {
    void *none[MAX_ARGUMENTS] = {0};
    uint64_t least = UINT64_MAX;
    int result;
    for (int i = 0; i < EMPTY_CALLS; i++) {
        uint64_t cycles = timed_call(nothing, none, &result);
        least = cycles < least ? cycles : least;
    }
    return least;
}

/* Parts and ranges of them are not multiples of 8 bytes; work and snapshot lie alike. */
static int same(const uint8_t *a, const uint8_t *b, uint32_t bytes) {
    for (; bytes != 0 && ((uintptr_t)a & 7) != 0; bytes--)
        if (*a++ != *b++)
            return 0;
    for (; bytes >= 8; bytes -= 8, a += 8, b += 8)
        if (*(const uint64_t *)a != *(const uint64_t *)b)
            return 0;
    while (bytes--)
        if (*a++ != *b++)
            return 0;
    return 1;
}

static int outputs_as_before(void) {
    for (uint32_t i = 0; i < now->output_count; i++) {
        const struct dsp_range *range = &now->outputs[i];
        if (!same(now->work + range->offset, now->snapshot + range->offset, range->bytes))
            return 0;
    }
    return 1;
}

static void spoil_outputs(void) {
    for (uint32_t i = 0; i < now->output_count; i++)
        memset(now->work + now->outputs[i].offset, UNLIKE, now->outputs[i].bytes);
}

/* The least of the samples is what the candidate can do: one slow sample proves nothing. */
static int beyond_budget(void) {
    uint32_t enough = now->repeats < CALLS_TO_BE_SURE ? now->repeats : CALLS_TO_BE_SURE;
    if (now->budget_cycles == 0 || now->sample_count < enough)
        return 0;
    for (uint32_t i = 0; i < now->sample_count; i++)
        if (now->samples[i] <= now->budget_cycles + now->overhead_cycles)
            return 0;
    return 1;
}

static int time_calls(void *const *arguments) {
    for (uint32_t i = 0; i < now->warm_ups + now->repeats; i++) {
        spoil_outputs();
        int result;
        uint64_t cycles = timed_call(hvxtune_entry, arguments, &result);
        if (result != 0)
            return result;
        if (!outputs_as_before()) {
            now->state = DSP_UNSTEADY;
            return 1;
        }
        if (i < now->warm_ups)
            continue;
        now->samples[now->sample_count++] = cycles;
        if (beyond_budget()) {
            now->state = DSP_CUT_OFF;
            return 1;
        }
    }
    if (!same(now->work, now->snapshot, current->part_bytes)) {
        now->state = DSP_UNSTEADY;
        return 1;
    }
    return 0;
}

/* Leaves poison where the frames of the call that follows will lie. */
static __attribute__((noinline)) void poison_stack(uint32_t poison) {
    uint32_t frame[STACK_POISONED / sizeof(uint32_t)];
    poison_words(frame, sizeof frame, poison);
    __asm__ volatile("" : : "r"(frame) : "memory");
}

/* What the call made of memory goes to the host at once, whatever the timed calls come to. */
int call_candidate(void *const *arguments, uint32_t count) {
    (void)count;
    poison_stack(current->poison);
    int result = call(hvxtune_entry, arguments);
    if (result != 0 && !current->may_refuse)
        return result;
    uint32_t bytes = current->part_bytes;
    if (now->keep(now->work, bytes) != 0) {
        now->state = DSP_NOT_KEPT;
        return 1;
    }
    if (opened > 1 || now->repeats == 0)
        return result;
    memcpy(now->snapshot, now->work, bytes);
    return time_calls(arguments);
}

/* Timed calls open heap and VTCM anew, and pay for no poison. */
uint8_t *open_case(const struct image_header *image, const struct image_case *one) {
    opened++;
    current = one;
    runtime.heap.poison = runtime.vtcm.poison = one->poison + 1;
    return memcpy(now->work, (const uint8_t *)image + one->part_offset, one->part_bytes);
}

void close_case(const struct image_case *one) { (void)one; }

uint8_t *view_of(uint8_t *part, const struct image_case *one, uint32_t number) {
    (void)one, (void)number;
    return part;
}

__attribute__((visibility("default"))) void hvxtune_run(struct dsp_run *run) {
    now = run;
    opened = 0;
    if (run->version != DSP_VERSION) {
        run->state = DSP_NOT_LOADED;
        return;
    }
    run->state = DSP_FINISHED;
    run->sample_count = run->heap_used = run->vtcm_used = 0;
    run->overhead_cycles = cycles_of_nothing();
    run->heap_used = run->vtcm_used = 0;
    if (run_cases(run->image, run->heap, run->vtcm) != 0 && run->state == DSP_FINISHED)
        run->state = DSP_CALL_FAILED;
}

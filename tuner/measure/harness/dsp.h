/* The harness on a phone's DSP: a driver and candidates, each a shared object of its own.
 *
 * The driver (dsp_driver.c) is what the phone's tool loads and calls. It loads one candidate after
 * the other and hands it a struct dsp_run. A candidate (dsp_candidate.c, linked with cases.c and
 * the runtime) imports nothing: what it needs of the system it gets through that struct.
 *
 * Nothing parts a candidate from the driver's memory here. So no expected output ever lies on the
 * phone: what memory became goes to a file, which the host compares.
 */
#ifndef HVXTUNE_DSP_H
#define HVXTUNE_DSP_H

#include "image.h"

#define DSP_VERSION 2u

/* How a candidate's run ended; the same numbers go into the results. */
enum dsp_state {
    DSP_FINISHED = 0,
    DSP_CALL_FAILED = 1,  /* the report says which value was returned */
    DSP_UNSTEADY = 2,     /* a later call with the same inputs left other bytes */
    DSP_CUT_OFF = 3,      /* certainly slower than the budget */
    DSP_NOT_LOADED = 4,   /* the system did not load the shared object */
    DSP_NO_MEMORY = 5,    /* the driver got no memory for the problem */
    DSP_NO_PROBLEM = 6,   /* the problem's file is missing, short or of another version */
    DSP_NOT_KEPT = 7,     /* what memory became could not be written */
    DSP_DAMAGED = 8,      /* the harness's own memory was written to */
};

/* A part of a case's memory that the candidate is to write. */
struct dsp_range {
    uint32_t offset, bytes;
};

struct dsp_run {
    uint32_t version;
    uint32_t warm_ups; /* untimed calls before the timed ones */
    uint32_t repeats;  /* timed calls, all of the first case */
    uint32_t output_count;
    const struct dsp_range *outputs; /* of the first case */
    uint64_t budget_cycles;          /* of one call without the overhead; 0 for none */
    struct image_header *image;
    uint8_t *work;     /* where the case under way lies */
    uint8_t *snapshot; /* as large as the first case's part */
    void *heap, *vtcm;
    uint64_t (*clock)(void);
    int (*keep)(const void *part, uint32_t bytes); /* 0 if it was written */
    uint64_t *samples; /* room for `repeats`: cycles of each timed call */
    uint64_t overhead_cycles; /* of a timed call whose candidate does nothing */
    uint32_t sample_count;
    enum dsp_state state;
    uint32_t heap_used, vtcm_used; /* bytes from the start that it may have written to */
};

/* The one symbol of a candidate. */
void hvxtune_run(struct dsp_run *run);

/* dsp_power.c: asks for the highest clocks and for the vector unit's power. Bits of what was
 * granted; the driver tells them to the host. */
enum dsp_power { DSP_CLOCKS_ASKED = 1, DSP_CLOCKS_GRANTED = 2, DSP_HVX_GRANTED = 4 };
uint32_t dsp_ask_for_clocks(void);

#endif

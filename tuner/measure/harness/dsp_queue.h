/* The files between host and driver; on the host queue_file.py and results.py of
 * tuner/measure/android write and read them.
 *
 * queue: a header, the problems, the entries. results: records, each appended as soon as it is
 * known, so that a crash loses nothing that came before. All numbers are little endian.
 */
#ifndef HVXTUNE_DSP_QUEUE_H
#define HVXTUNE_DSP_QUEUE_H

#include "dsp.h"

#define QUEUE_MAGIC 0x51565848u  /* "HXVQ" */
#define RECORD_MAGIC 0x52565848u /* "HXVR" */
#define QUEUE_VERSION 2u
#define QUEUE_PATH_BYTES 128
#define QUEUE_NAME_BYTES 16
#define QUEUE_NONCE_BYTES 16

struct queue_header {
    uint32_t magic, version;
    uint8_t nonce[QUEUE_NONCE_BYTES]; /* comes back in every record */
    uint32_t problem_count, entry_count;
    uint32_t heap_bytes;
    uint32_t unused;
};

struct queue_problem {
    char path[QUEUE_PATH_BYTES]; /* of the memory image */
    uint32_t image_bytes;
    uint32_t output_count; /* of the first case */
    struct dsp_range outputs[IMAGE_BUFFERS];
};

struct queue_entry {
    uint32_t problem;
    uint32_t cases; /* how many of the problem's are run, from the first */
    uint32_t warm_ups, repeats;
    uint64_t budget_cycles;
    char object[QUEUE_NAME_BYTES]; /* file name of the shared object */
    char output[QUEUE_NAME_BYTES]; /* file what memory became goes to; empty for none */
};

enum record_kind { RECORD_BEGIN = 1, RECORD_ENTRY_BEGINS = 2, RECORD_ENTRY_ENDS = 3, RECORD_END = 4 };

/* `sample_count` samples of 8 bytes follow, then a CRC-32 of all of the record before it. */
struct record {
    uint32_t magic;
    uint32_t kind;
    uint8_t nonce[QUEUE_NONCE_BYTES];
    uint32_t entry;
    uint32_t state;    /* enum dsp_state; in RECORD_BEGIN bits of enum dsp_power */
    uint32_t vtcm_bytes; /* that the system granted */
    uint32_t sample_count;
    uint64_t overhead_cycles; /* what each sample has of the harness */
    struct image_report report;
};

_Static_assert(sizeof(struct queue_header) == 40 && sizeof(struct queue_problem) == 264 &&
                   sizeof(struct queue_entry) == 56 && sizeof(struct record) == 304,
               "as tuner/measure/dsp/queue.py and results.py pack them");

#endif

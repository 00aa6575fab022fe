/* The shared object a phone's tool calls on the DSP: runs a queue of candidates, one by one. */
#include <stddef.h>

#include "dsp_queue.h"

/* Of the C library and of the system: a DSP offers them all. */
typedef struct file FILE;
FILE *fopen(const char *path, const char *mode);
int fclose(FILE *file);
size_t fread(void *to, size_t size, size_t count, FILE *file);
size_t fwrite(const void *from, size_t size, size_t count, FILE *file);
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *malloc(size_t bytes);
void *memalign(size_t alignment, size_t bytes);
void free(void *pointer);
void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
void *HAP_request_VTCM(unsigned bytes, unsigned single_page);
int HAP_release_VTCM(void *pointer);
/* A function of the system on older phones, an instruction of the newer SDKs' header. */
__attribute__((weak)) uint64_t HAP_perf_get_pcycles(void);

enum { RTLD_NOW = 2, MAX_PROBLEMS = 64, MAX_PATH = 512, PAGE = 4096 };

struct problem {
    struct queue_problem what;
    struct image_header *image; /* NULL until an entry needs it */
    uint64_t sum;
};

static const char *folder;
static struct queue_header queue;
static struct problem problems[MAX_PROBLEMS];
static uint8_t *work, *snapshot, *heap;
static uint32_t work_bytes;
static void *vtcm;
static uint32_t vtcm_bytes;
static FILE *kept;

/* clang calls this for copies it knows to be aligned; it is no part of a C library. */
void *__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void *to, const void *from,
                                                            size_t bytes) {
    return memcpy(to, from, bytes);
}

static const char *in_folder(const char *name) {
    static char path[MAX_PATH];
    size_t at = 0;
    for (const char *from = folder; *from != 0 && at < MAX_PATH - 2; from++)
        path[at++] = *from;
    path[at++] = '/';
    for (; *name != 0 && at < MAX_PATH - 1; name++)
        path[at++] = *name;
    path[at] = 0;
    return path;
}

/* Polynomial 0xedb88320, as zlib's crc32. Records are few and small: no table. */
static uint32_t crc32(uint32_t crc, const void *from, size_t bytes) {
    const uint8_t *f = from;
    crc = ~crc;
    while (bytes--) {
        crc ^= *f++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* Opened and closed each time: then the record is on the phone whatever comes after. */
static int write_record(struct record *record, const uint64_t *samples) {
    record->magic = RECORD_MAGIC;
    memcpy(record->nonce, queue.nonce, sizeof record->nonce);
    record->vtcm_bytes = vtcm_bytes;
    size_t bytes = record->sample_count * sizeof *samples;
    uint32_t crc = crc32(crc32(0, record, sizeof *record), samples, bytes);
    FILE *file = fopen(in_folder("results"), "ab");
    if (file == NULL)
        return 1;
    int bad = fwrite(record, sizeof *record, 1, file) != 1;
    bad |= bytes != 0 && fwrite(samples, bytes, 1, file) != 1;
    bad |= fwrite(&crc, sizeof crc, 1, file) != 1;
    return bad | (fclose(file) != 0);
}

static int write_plain(enum record_kind kind, uint32_t entry, uint32_t state) {
    struct record record = {.kind = kind, .entry = entry, .state = state};
    return write_record(&record, NULL);
}

static int read_whole(const char *path, void *to, uint32_t bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 1;
    int bad = fread(to, bytes, 1, file) != 1;
    fclose(file);
    return bad;
}

static uint32_t largest_part(const struct image_header *image) {
    const struct image_case *cases =
        (const void *)((const uint8_t *)image + image->cases_offset);
    uint32_t most = 0;
    for (uint32_t i = 0; i < image->case_count; i++)
        most = cases[i].part_bytes > most ? cases[i].part_bytes : most;
    return most;
}

/* Memory for the case under way, and for what its first call made of it. */
static int make_room(uint32_t bytes) {
    if (bytes <= work_bytes)
        return 0;
    free(work);
    free(snapshot);
    work = memalign(PAGE, bytes);
    snapshot = memalign(PAGE, bytes);
    work_bytes = work != NULL && snapshot != NULL ? bytes : 0;
    return work_bytes == 0;
}

static void ask_for_vtcm(uint32_t bytes) {
    if (bytes <= vtcm_bytes)
        return;
    if (vtcm != NULL)
        HAP_release_VTCM(vtcm);
    vtcm = HAP_request_VTCM(bytes, 1);
    vtcm_bytes = vtcm != NULL ? bytes : 0;
}

/* Fletcher's sums of the inputs, which no candidate may touch: cases work on copies. */
static uint64_t sum_of_inputs(const struct image_header *image) {
    const uint64_t *from = (const void *)((const uint8_t *)image + image->report_offset);
    const uint64_t *end = (const void *)((const uint8_t *)image + image->image_bytes);
    uint64_t sum = 0, sums = 0;
    for (from += sizeof(struct image_report) / sizeof *from; from != end; from++)
        sums += sum += *from;
    return sums * 31 + sum;
}

static enum dsp_state load_problem(struct problem *problem) {
    if (problem->image != NULL)
        return DSP_FINISHED;
    uint32_t bytes = problem->what.image_bytes;
    struct image_header *image = memalign(PAGE, bytes);
    if (image == NULL)
        return DSP_NO_MEMORY;
    if (bytes < sizeof *image || read_whole(problem->what.path, image, bytes) != 0 ||
        image->magic != IMAGE_MAGIC || image->version != IMAGE_VERSION ||
        image->image_bytes != bytes || bytes % 8 != 0 ||
         image->practice_calls != 0) {
        free(image);
        return DSP_NO_PROBLEM;
    }
    if (make_room(largest_part(image)) != 0) {
        free(image);
        return DSP_NO_MEMORY;
    }
    problem->image = image;
    problem->sum = sum_of_inputs(image);
    return DSP_FINISHED;
}

static uint64_t clock_cycles(void) {
    if (HAP_perf_get_pcycles != NULL)
        return HAP_perf_get_pcycles();
    uint64_t cycles;
    __asm__ volatile("%0 = c15:14" : "=r"(cycles)); /* UPCYCLE */
    return cycles;
}

static int keep(const void *part, uint32_t bytes) {
    return kept != NULL && fwrite(part, bytes, 1, kept) != 1;
}

static enum dsp_state call_candidate(const struct queue_entry *entry, struct dsp_run *run) {
    void *library = dlopen(entry->object, RTLD_NOW);
    if (library == NULL)
        return DSP_NOT_LOADED;
    void (*candidate)(struct dsp_run *) = (void (*)(struct dsp_run *))dlsym(library, "hvxtune_run");
    enum dsp_state state = DSP_NOT_LOADED;
    if (candidate != NULL) {
        candidate(run);
        state = run->state;
    }
    dlclose(library);
    return state;
}

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* By doublewords: a C library may take its time for one byte after another. */
static void clear(void *memory, uint32_t bytes) {
    uint64_t *at = memory;
    for (uint32_t left = bytes / 32; left != 0; left--, at += 4)
        at[0] = at[1] = at[2] = at[3] = 0;
}

static void prepare_memory(struct image_header *image, uint32_t cases) {
    image->heap_bytes = queue.heap_bytes;
    uint32_t wanted = image->vtcm_bytes;
    ask_for_vtcm(wanted);
    if (vtcm_bytes < wanted)
        image->vtcm_bytes = vtcm_bytes;
    image->case_count = cases;
    clear((uint8_t *)image + image->report_offset, sizeof(struct image_report));
}

/* What one candidate left in scratch memory must not help the next. */
static void clear_after(const struct dsp_run *run) {
    uint32_t more = PAGE; /* for what was written a little past an end */
    clear(heap, smaller(run->heap_used + more, queue.heap_bytes));
    clear(vtcm, smaller(run->vtcm_used + more, run->image->vtcm_bytes));
}

static enum dsp_state run_entry(const struct queue_entry *entry, struct record *record,
                                uint64_t *samples) {
    struct problem *problem = &problems[entry->problem];
    enum dsp_state state = load_problem(problem);
    if (state != DSP_FINISHED)
        return state;
    struct image_header *image = problem->image, as_pushed = *image;
    prepare_memory(image, entry->cases);
    kept = NULL;
    if (entry->output[0] != 0 && (kept = fopen(in_folder(entry->output), "wb")) == NULL)
        return DSP_NOT_KEPT;
    struct dsp_run run = {
        .version = DSP_VERSION,
        .warm_ups = entry->warm_ups,
        .repeats = entry->repeats,
        .output_count = problem->what.output_count,
        .outputs = problem->what.outputs,
        .budget_cycles = entry->budget_cycles,
        .image = image,
        .work = work,
        .snapshot = snapshot,
        .heap = heap,
        .vtcm = vtcm,
        .clock = clock_cycles,
        .keep = keep,
        .samples = samples,
    };
    state = call_candidate(entry, &run);
    clear_after(&run);
    if (kept != NULL && fclose(kept) != 0 && state == DSP_FINISHED)
        state = DSP_NOT_KEPT;
    memcpy(&record->report, (uint8_t *)image + image->report_offset, sizeof record->report);
    record->overhead_cycles = run.overhead_cycles;
    record->sample_count = run.sample_count <= entry->repeats ? run.sample_count : 0;
    *image = as_pushed;
    return sum_of_inputs(image) == problem->sum ? state : DSP_DAMAGED;
}

static int run_queue(const struct queue_entry *entries) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < queue.entry_count; i++)
        most = entries[i].repeats > most ? entries[i].repeats : most;
    uint64_t *samples = malloc(most * sizeof *samples);
    heap = memalign(PAGE, queue.heap_bytes);
    if (samples == NULL || heap == NULL)
        return write_plain(RECORD_END, 0, DSP_NO_MEMORY) | 1;
    for (uint32_t i = 0; i < queue.entry_count; i++) {
        struct record record = {.kind = RECORD_ENTRY_ENDS, .entry = i};
        if (entries[i].problem >= queue.problem_count ||
            write_plain(RECORD_ENTRY_BEGINS, i, DSP_FINISHED) != 0)
            return 1;
        record.state = run_entry(&entries[i], &record, samples);
        if (write_record(&record, samples) != 0)
            return 1;
        if (record.state == DSP_DAMAGED) /* a fresh process is fair to the others */
            return write_plain(RECORD_END, i, DSP_DAMAGED);
    }
    return write_plain(RECORD_END, queue.entry_count, DSP_FINISHED);
}

static int read_queue(struct queue_entry **entries) {
    FILE *file = fopen(in_folder("queue"), "rb");
    if (file == NULL)
        return 1;
    int bad = fread(&queue, sizeof queue, 1, file) != 1 || queue.magic != QUEUE_MAGIC ||
              queue.version != QUEUE_VERSION || queue.problem_count > MAX_PROBLEMS;
    for (uint32_t i = 0; !bad && i < queue.problem_count; i++)
        bad = fread(&problems[i].what, sizeof problems[i].what, 1, file) != 1;
    if (!bad) {
        size_t bytes = queue.entry_count * sizeof **entries;
        *entries = malloc(bytes);
        bad = *entries == NULL || fread(*entries, bytes, 1, file) != 1;
    }
    fclose(file);
    return bad;
}

/* The last argument names the folder with the queue; the tool may put words of its own before. */
__attribute__((visibility("default"))) int main(int argc, char **argv) {
    struct queue_entry *entries;
    folder = argv[argc - 1];
    if (argc < 2 || read_queue(&entries) != 0)
        return 1;
    if (write_plain(RECORD_BEGIN, 0, dsp_ask_for_clocks()) != 0)
        return 2;
    return run_queue(entries);
}

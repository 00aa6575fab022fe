/* What goes wrong on purpose, from a file that the test writes, and what one run leaves the next. */
#include "loader.h"

#define FAULTS "/vendor/rig/faults"
#define HISTORY "/vendor/rig/history"

struct faults faults;

/* Lies behind every random choice: the same seed and number of runs, the same choices. */
static struct {
    uint32_t runs;
    uint32_t packets; /* since the last rest, saturating */
    uint64_t ended_ms;
} history;
static uint64_t random_state;
static uint64_t run_packets;

static uint32_t value_of(const char *text, const char *name, uint32_t otherwise) {
    size_t length = strlen(name);
    for (const char *line = text; *line != 0; line++) {
        if (strncmp(line, name, length) == 0 && line[length] == '=')
            return strtoul(line + length + 1, NULL, 10);
        while (*line != 0 && *line != '\n')
            line++;
        if (*line == 0)
            break;
    }
    return otherwise;
}

void read_faults(void) {
    char text[1024];
    read_text(FAULTS, text, sizeof text);
    faults = (struct faults){
        .seed = value_of(text, "seed", 0),
        .cycles_ppm = value_of(text, "cycles_ppm", 1000000),
        .noise_ppm = value_of(text, "noise_ppm", 0),
        .spike_ppm = value_of(text, "spike_ppm", 0),
        .throttled_ppm = value_of(text, "throttled_ppm", 0),
        .hot_after = value_of(text, "hot_after", 0),
        .rest_ms = value_of(text, "rest_ms", 0),
        .crash_at_write = value_of(text, "crash_at_write", 0),
        .hang_at_write = value_of(text, "hang_at_write", 0),
        .hang_at_start = value_of(text, "hang_at_start", 0),
        .keep_bytes_ppm = value_of(text, "keep_bytes_ppm", 0),
        .flip_from_bytes = value_of(text, "flip_from_bytes", 0),
    };
    read_text(HISTORY, text, sizeof text);
    history.runs = value_of(text, "runs", 0);
    history.packets = value_of(text, "packets", 0);
    uint32_t ended_s = value_of(text, "ended_s", 0);
    history.ended_ms = (uint64_t)ended_s * 1000 + value_of(text, "ended_ms", 0);
    if (wall_ms() - history.ended_ms >= faults.rest_ms)
        history.packets = 0;
    random_state = ((uint64_t)faults.seed << 32 | history.runs) * 0x9e3779b97f4a7c15u + 1;
}

/* xorshift64* (Vigna, An experimental exploration of Marsaglia's xorshift generators, 2016). */
uint32_t random_below(uint32_t limit) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 0x2545f4914f6cdd1du >> 32) * limit >> 32);
}

int is_hot(uint64_t packets_of_run) {
    run_packets = packets_of_run;
    return faults.hot_after && history.packets + packets_of_run > faults.hot_after;
}

static char *put(char *at, const char *name, uint32_t value) {
    char digits[11];
    char *first = digits + sizeof digits - 1;
    *first = 0;
    do
        *--first = (char)('0' + value % 10);
    while (value /= 10);
    for (const char *parts[] = {name, "=", first, "\n", NULL}, **part = parts; *part; part++)
        for (const char *c = *part; *c;)
            *at++ = *c++;
    *at = 0;
    return at;
}

void keep_history(void) {
    char text[160], *at = text;
    pcycles(); /* brings the count of packets up to date */
    uint64_t packets = history.packets + run_packets, now = wall_ms();
    at = put(at, "runs", history.runs + 1);
    at = put(at, "packets", packets > 0xffffffffu ? 0xffffffffu : (uint32_t)packets);
    at = put(at, "ended_s", (uint32_t)(now / 1000));
    put(at, "ended_ms", (uint32_t)(now % 1000));
    write_text(HISTORY, text);
}

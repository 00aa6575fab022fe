/* What a shared object on the DSP may call: the part of the SDK's and the C library's functions
 * that a tuner's driver needs. Messages are dropped, as they are on a phone that nobody listens to.
 */
#include "loader.h"

enum { VTCM_BYTES = 256 << 10, VTCM_ALIGNMENT = 4096, PATH_BYTES = 512 };

extern const char *library_path;

static void *taken_vtcm;
static uint32_t taken_vtcm_bytes;

static void *request_vtcm(unsigned bytes, unsigned single_page) {
    (void)single_page;
    if (taken_vtcm != NULL || bytes > VTCM_BYTES)
        return NULL;
    taken_vtcm_bytes = bytes;
    taken_vtcm = memalign(VTCM_ALIGNMENT, bytes);
    return taken_vtcm;
}

static int release_vtcm(void *pointer) {
    if (pointer != taken_vtcm)
        return -1;
    free(pointer);
    taken_vtcm = NULL;
    return 0;
}

static int query_available_vtcm(unsigned *bytes, unsigned *page, unsigned *pages) {
    unsigned left = taken_vtcm ? 0 : VTCM_BYTES;
    if (bytes)
        *bytes = left;
    if (page)
        *page = left;
    if (pages)
        *pages = left != 0;
    return 0;
}

static uint64_t qtimer_count(void) { return time_us() * 192 / 10; } /* 19.2 MHz */
static uint64_t qtimer_to_us(uint64_t count) { return count * 10 / 192; }
static int done(void) { return 0; }
static int first_unit_of_one(void) { return 1; }
static __attribute__((noreturn)) void abort_run(void) { *(volatile int *)0 = 0, leave(13); }

/* Searched for where DSP_LIBRARY_PATH says, its folders separated by semicolons. */
static void *open_library(const char *name, int flags) {
    (void)flags;
    if (name[0] == '/')
        return load_module(name);
    void *found = NULL;
    for (const char *from = library_path; from && *from && !found;) {
        char path[PATH_BYTES], *at = path, *end = path + sizeof path - 1;
        for (; *from && *from != ';'; from++)
            if (at < end)
                *at++ = *from;
        from += *from == ';';
        for (const char *parts[] = {"/", name, NULL}, **part = parts; *part; part++)
            for (const char *c = *part; *c && at < end;)
                *at++ = *c++;
        *at = 0;
        found = load_module(path);
    }
    return found;
}

static int close_library(void *library) {
    unload_module(library);
    return 0;
}

static char *library_failure(void) { return load_failure; }

static const struct {
    const char *name;
    void *function;
} table[] = {
    {"fopen", fopen},
    {"fclose", fclose},
    {"fread", fread},
    {"fwrite", fwrite},
    {"fseek", fseek},
    {"ftell", ftell},
    {"fflush", fflush},
    {"remove", remove},
    {"rename", rename},
    {"printf", done},
    {"fprintf", done},
    {"puts", done},
    {"putchar", done},
    {"HAP_debug", done},
    {"HAP_debug_v2", done},
    {"malloc", malloc},
    {"calloc", calloc},
    {"realloc", realloc},
    {"free", free},
    {"memalign", memalign},
    {"posix_memalign", posix_memalign},
    {"memcpy", memcpy},
    {"memmove", memmove},
    {"memset", memset},
    {"memcmp", memcmp},
    {"strlen", strlen},
    {"strcmp", strcmp},
    {"strncmp", strncmp},
    {"strcpy", strcpy},
    {"strtol", strtol},
    {"strtoul", strtoul},
    {"atoi", atoi},
    {"exit", leave},
    {"abort", abort_run},
    {"dlopen", open_library},
    {"dlsym", module_symbol},
    {"dlclose", close_library},
    {"dlerror", library_failure},
    {"HAP_perf_get_pcycles", pcycles},
    {"HAP_perf_get_time_us", time_us},
    {"HAP_perf_get_qtimer_count", qtimer_count},
    {"HAP_perf_qtimer_count_to_us", qtimer_to_us},
    {"HAP_power_set", done},
    {"HAP_request_VTCM", request_vtcm},
    {"HAP_release_VTCM", release_vtcm},
    {"HAP_query_avail_VTCM", query_available_vtcm},
    {"qurt_hvx_lock", done},
    {"qurt_hvx_unlock", done},
    {"qurt_hvx_get_units", first_unit_of_one},
};

void *provided(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].function;
    return NULL;
}

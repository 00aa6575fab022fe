/* What tests run on an emulated phone's DSP: `probe.so FILE [ACTION]`.
 *
 * Appends to FILE the cycles of four equal loops, one write each, then 1 KB of the bytes 0 to 255,
 * then does ACTION. Returns the number of its arguments.
 */
typedef unsigned long long cycles_t;

cycles_t HAP_perf_get_pcycles(void);
void *HAP_request_VTCM(unsigned bytes, unsigned single_page);
int HAP_release_VTCM(void *at);
void *fopen(const char *path, const char *mode);
int fclose(void *stream);
unsigned fwrite(const void *from, unsigned size, unsigned count, void *stream);
void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
int strcmp(const char *a, const char *b);
__attribute__((weak)) int no_such_function(void);
#ifdef NEEDS_MORE
int nobody_has_this(void);
#endif

enum { NO_WEAK = 101, NO_VTCM = 102, NO_FILE = 103, NO_LIBRARY = 104, TOO_MUCH_VTCM = 105 };

static volatile int sink;

static __attribute__((noinline)) cycles_t loop(int count) {
    cycles_t before = HAP_perf_get_pcycles();
    for (int i = 0; i < count; i++)
        sink++;
    return HAP_perf_get_pcycles() - before;
}

static __attribute__((noinline)) int recurse(int depth) {
    volatile char kept[1024];
    kept[0] = (char)depth;
    return sink < 0 ? 0 : recurse(depth + 1) + kept[0];
}

static int act(const char *action) {
    if (strcmp(action, "null") == 0)
        *(volatile int *)4 = 1;
    if (strcmp(action, "recurse") == 0)
        return recurse(0);
    if (strcmp(action, "unknown") == 0)
        __asm__ volatile(".word 0xffffffff");
    if (strcmp(action, "load") == 0) { /* itself, by the name alone */
        void *library = dlopen("probe.so", 2);
        int (*other)(void) = library ? dlsym(library, "other") : 0;
        return other && other() == 42 && !dlsym(library, "nothing") ? dlclose(library) : NO_LIBRARY;
    }
    return 0;
}

int other(void) { return 42; }

int main(int argc, char **argv) {
#ifdef NEEDS_MORE
    nobody_has_this();
#endif
    if (no_such_function)
        return NO_WEAK;
    void *vtcm = HAP_request_VTCM(1 << 16, 1);
    if (!vtcm || ((unsigned)vtcm & 127) || HAP_release_VTCM(vtcm))
        return NO_VTCM;
    if (HAP_request_VTCM(1 << 30, 1))
        return TOO_MUCH_VTCM;
    void *file = fopen(argv[1], "ab");
    if (!file)
        return NO_FILE;
    for (int i = 0; i < 4; i++) {
        cycles_t cycles = loop(100000);
        fwrite(&cycles, sizeof cycles, 1, file);
    }
    unsigned char bytes[1024];
    for (int i = 0; i < 1024; i++)
        bytes[i] = (unsigned char)i;
    fwrite(bytes, 1, sizeof bytes, file);
    fclose(file);
    int failed = argc > 2 ? act(argv[2]) : 0;
    return failed ? failed : argc;
}

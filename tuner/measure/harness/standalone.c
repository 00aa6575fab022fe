/* The driver (dsp_driver.c) as a program for hexagon-sim without an operating system.
 *
 * Compiled and linked by the compiler of Qualcomm's tools, whose C library reaches files of the host
 * through the simulator. Here is what an operating system offers the driver on a phone: shared
 * objects, the vector unit, the clock. There is no VTCM: who asks for it is told so.
 */
#include <stddef.h>
#include <stdint.h>

#include <hexagon_sim_timer.h>
#include <hexagon_standalone.h>

#undef main /* that of the driver has another name (tuner/measure/hexagon_sim/standalone.py) */

typedef struct file FILE;
FILE *fopen(const char *path, const char *mode);
int fclose(FILE *file);
int fseek(FILE *file, long offset, int whence);
size_t fread(void *to, size_t size, size_t count, FILE *file);
void *memalign(size_t alignment, size_t bytes);
void *memset(void *to, int value, size_t bytes);
void free(void *pointer);
int hvxtune_driver(int argc, char **argv);

struct header {
    uint8_t ident[16];
    uint16_t type, machine;
    uint32_t version, entry, segments_at, sections_at, flags;
    uint16_t header_bytes, segment_bytes, segment_count;
};

struct segment {
    uint32_t type, offset, address, physical, file_bytes, memory_bytes, flags, alignment;
};

struct dynamic {
    int32_t tag;
    uint32_t value;
};

struct symbol {
    uint32_t name, value, size;
    uint8_t info, other;
    uint16_t section;
};

struct relocation {
    uint32_t offset, info;
    int32_t addend;
};

enum { ET_DYN = 3, EM_HEXAGON = 164, PT_LOAD = 1, PT_DYNAMIC = 2, R_HEX_RELATIVE = 35 };
enum { DT_HASH = 4, DT_STRTAB = 5, DT_SYMTAB = 6, DT_RELA = 7, DT_RELASZ = 8, DT_KNOWN = 9 };
enum { MOST_SEGMENTS = 16, PAGE_BYTES = 0x10000, LINE_BYTES = 32, SEEK_SET = 0 };

/* One at a time: a process runs one candidate. */
static struct {
    uint8_t *base;
    uint32_t bytes;
    uint32_t dynamic[DT_KNOWN];
} library;

static int read_at(FILE *file, uint32_t offset, void *to, uint32_t bytes) {
    return bytes != 0 && (fseek(file, (long)offset, SEEK_SET) != 0 || fread(to, bytes, 1, file) != 1);
}

static int load_segments(FILE *file, const struct segment *segments, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct segment *one = &segments[i];
        if (one->type == PT_LOAD &&
            read_at(file, one->offset, library.base + one->address, one->file_bytes) != 0)
            return 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (segments[i].type != PT_DYNAMIC)
            continue;
        const struct dynamic *one = (const void *)(library.base + segments[i].address);
        for (; one->tag != 0; one++)
            if (one->tag > 0 && one->tag < DT_KNOWN)
                library.dynamic[one->tag] = one->value;
    }
    return library.dynamic[DT_HASH] == 0 || library.dynamic[DT_SYMTAB] == 0;
}

/* Candidates import nothing: only their own addresses are to be filled in. */
static int relocate(void) {
    const struct relocation *one = (const void *)(library.base + library.dynamic[DT_RELA]);
    for (uint32_t left = library.dynamic[DT_RELASZ] / sizeof *one; left != 0; left--, one++) {
        if ((one->info & 0xff) != R_HEX_RELATIVE)
            return 1;
        *(uint32_t *)(library.base + one->offset) = (uint32_t)library.base + (uint32_t)one->addend;
    }
    return 0;
}

/* Code was written as data: it goes to memory before instructions are read from there. */
static void let_code_be_fetched(void) {
    for (uint32_t at = 0; at < library.bytes; at += LINE_BYTES)
        __asm__ volatile("dccleaninva(%0)\n  icinva(%0)" : : "r"(library.base + at) : "memory");
    __asm__ volatile("syncht\n  isync" : : : "memory");
}

static int load(FILE *file) {
    struct header header;
    struct segment segments[MOST_SEGMENTS];
    if (read_at(file, 0, &header, sizeof header) != 0 || header.type != ET_DYN ||
        header.machine != EM_HEXAGON || header.segment_count > MOST_SEGMENTS ||
        read_at(file, header.segments_at, segments, header.segment_count * sizeof *segments) != 0)
        return 1;
    for (uint32_t i = 0; i < header.segment_count; i++) {
        uint32_t end = segments[i].address + segments[i].memory_bytes;
        if (segments[i].type == PT_LOAD && end > library.bytes)
            library.bytes = end;
    }
    library.base = library.bytes != 0 ? memalign(PAGE_BYTES, library.bytes) : NULL;
    if (library.base == NULL)
        return 1;
    memset(library.base, 0, library.bytes);
    return load_segments(file, segments, header.segment_count) || relocate();
}

int dlclose(void *opened) {
    (void)opened;
    free(library.base);
    memset(&library, 0, sizeof library);
    return 0;
}

void *dlopen(const char *name, int flags) {
    (void)flags;
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        return NULL;
    int bad = load(file);
    fclose(file);
    if (bad) {
        dlclose(&library);
        return NULL;
    }
    let_code_be_fetched();
    return &library;
}

static int same(const char *a, const char *b) {
    for (; *a != 0 && *a == *b; a++, b++)
        continue;
    return *a == *b;
}

void *dlsym(void *opened, const char *name) {
    (void)opened;
    const uint32_t *hash = (const void *)(library.base + library.dynamic[DT_HASH]);
    const struct symbol *symbols = (const void *)(library.base + library.dynamic[DT_SYMTAB]);
    const char *names = (const char *)library.base + library.dynamic[DT_STRTAB];
    for (uint32_t i = 1; i < hash[1]; i++)
        if (symbols[i].section != 0 && same(names + symbols[i].name, name))
            return library.base + symbols[i].value;
    return NULL;
}

void *HAP_request_VTCM(unsigned bytes, unsigned single_page) {
    (void)bytes, (void)single_page;
    return NULL;
}

int HAP_release_VTCM(void *pointer) {
    (void)pointer;
    return 0;
}

uint64_t HAP_perf_get_pcycles(void) { return hexagon_sim_read_pcycles(); }

/* As Halide's simulator does (src/runtime/hexagon_remote/sim_qurt.cpp). */
int qurt_hvx_lock(int mode) {
    (void)mode;
    SIM_ACQUIRE_HVX;
    SIM_SET_HVX_DOUBLE_MODE;
    return 0;
}

/* The driver's files are where the simulator was started. */
__attribute__((visibility("default"))) int main(void) {
    static char name[] = "driver", here[] = ".";
    char *arguments[] = {name, here, NULL};
    return hvxtune_driver(2, arguments);
}

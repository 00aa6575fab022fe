/* Shared objects: mapped, relocated, looked into. */
#include "loader.h"

struct header {
    uint8_t ident[16];
    uint16_t type, machine;
    uint32_t version, entry, segments_at, sections_at, flags;
    uint16_t header_bytes, segment_bytes, segment_count;
};

struct segment {
    uint32_t type, offset, address, physical, file_bytes, memory_bytes, flags, alignment;
};

struct entry {
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

enum { ET_DYN = 3, EM_HEXAGON = 164, PT_LOAD = 1, PT_DYNAMIC = 2, MOST_SEGMENTS = 16 };
enum { PF_X = 1, PF_W = 2, PF_R = 4, SYS_MUNMAP = 215, SYS_MPROTECT = 226, PAGE = 0x10000 };
enum {
    DT_PLTRELSZ = 2,
    DT_HASH = 4,
    DT_STRTAB = 5,
    DT_SYMTAB = 6,
    DT_RELA = 7,
    DT_RELASZ = 8,
    DT_INIT = 12,
    DT_JMPREL = 23,
    DT_INIT_ARRAY = 25,
    DT_INIT_ARRAYSZ = 27,
    DT_KNOWN = 32,
};
enum { R_HEX_32 = 6, R_HEX_GLOB_DAT = 33, R_HEX_JMP_SLOT = 34, R_HEX_RELATIVE = 35 };
enum { STB_WEAK = 2 };

struct module {
    struct module *next;
    uint8_t *base;
    uint32_t bytes;
    uint32_t dynamic[DT_KNOWN];
};

char load_failure[240];
static struct module *oldest;

static struct module *fail(const char *reason, const char *name) {
    char *at = load_failure;
    for (const char *parts[] = {reason, " ", name, NULL}, **part = parts; *part; part++)
        for (const char *c = *part; *c && at < load_failure + sizeof load_failure - 1;)
            *at++ = *c++;
    *at = 0;
    return NULL;
}

static void *at(struct module *module, uint32_t address) { return module->base + address; }

static void *own_symbol(struct module *module, const char *name) {
    const uint32_t *hash = at(module, module->dynamic[DT_HASH]);
    const struct symbol *symbols = at(module, module->dynamic[DT_SYMTAB]);
    const char *names = at(module, module->dynamic[DT_STRTAB]);
    for (uint32_t i = 1; i < hash[1]; i++)
        if (symbols[i].section != 0 && strcmp(names + symbols[i].name, name) == 0)
            return at(module, symbols[i].value);
    return NULL;
}

void *module_symbol(struct module *module, const char *name) {
    void *found = own_symbol(module, name);
    if (found == NULL)
        fail("undefined symbol", name);
    return found;
}

static void *resolve(struct module *module, const char *name) {
    void *found = provided(name);
    for (struct module *m = oldest; m && !found; m = m->next)
        found = own_symbol(m, name);
    return found ? found : own_symbol(module, name);
}

static int relocate(struct module *module, uint32_t table, uint32_t bytes) {
    const struct relocation *relocations = at(module, table);
    const struct symbol *symbols = at(module, module->dynamic[DT_SYMTAB]);
    const char *names = at(module, module->dynamic[DT_STRTAB]);
    for (uint32_t i = 0; i < bytes / sizeof *relocations; i++) {
        const struct relocation *one = &relocations[i];
        const struct symbol *symbol = &symbols[one->info >> 8];
        uint32_t *word = at(module, one->offset), type = one->info & 0xff, value = 0;
        if (type == R_HEX_RELATIVE) {
            *word = (uint32_t)module->base + (uint32_t)one->addend;
            continue;
        }
        if (type != R_HEX_32 && type != R_HEX_GLOB_DAT && type != R_HEX_JMP_SLOT)
            return fail("unknown relocation in", "the shared object"), -1;
        value = (uint32_t)resolve(module, names + symbol->name);
        if (value == 0 && symbol->info >> 4 != STB_WEAK)
            return fail("undefined symbol", names + symbol->name), -1;
        __builtin_memcpy(word, &(uint32_t){value + (uint32_t)one->addend}, sizeof value);
    }
    return 0;
}

static int map_segments(struct module *module, int file, const struct segment *segments,
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct segment *one = &segments[i];
        if (one->type == PT_LOAD &&
            read_fully(file, one->offset, at(module, one->address), one->file_bytes) != 0)
            return -1;
        if (one->type == PT_DYNAMIC) {
            struct entry entries[64];
            uint32_t bytes = one->file_bytes < sizeof entries ? one->file_bytes : sizeof entries;
            if (read_fully(file, one->offset, entries, bytes) != 0)
                return -1;
            for (uint32_t e = 0; e < bytes / sizeof *entries && entries[e].tag != 0; e++)
                if (entries[e].tag > 0 && entries[e].tag < DT_KNOWN)
                    module->dynamic[entries[e].tag] = entries[e].value;
        }
    }
    return module->dynamic[DT_HASH] && module->dynamic[DT_SYMTAB] ? 0 : -1;
}

static void protect(struct module *module, const struct segment *segments, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (segments[i].type == PT_LOAD && !(segments[i].flags & PF_W)) {
            uint32_t first = segments[i].address & -PAGE;
            uint32_t end = (segments[i].address + segments[i].memory_bytes + PAGE - 1) & -PAGE;
            uint32_t allowed = (segments[i].flags & PF_R ? 1 : 0) | (segments[i].flags & PF_X ? 4 : 0);
            system_call(SYS_MPROTECT, (uint32_t)at(module, first), end - first, allowed, 0, 0, 0);
        }
}

static void initialize(struct module *module) {
    if (module->dynamic[DT_INIT])
        ((void (*)(void))at(module, module->dynamic[DT_INIT]))();
    void (**functions)(void) = at(module, module->dynamic[DT_INIT_ARRAY]);
    for (uint32_t i = 0; i < module->dynamic[DT_INIT_ARRAYSZ] / sizeof *functions; i++)
        functions[i]();
}

static struct module *map_module(int file, const char *path) {
    struct header header;
    struct segment segments[MOST_SEGMENTS];
    if (read_fully(file, 0, &header, sizeof header) != 0 || header.type != ET_DYN ||
        header.machine != EM_HEXAGON || header.segment_count > MOST_SEGMENTS ||
        read_fully(file, header.segments_at, segments,
                   header.segment_count * sizeof *segments) != 0)
        return fail("no shared object for Hexagon:", path);
    struct module *module = calloc(1, sizeof *module);
    for (uint32_t i = 0; i < header.segment_count; i++)
        if (segments[i].type == PT_LOAD) {
            uint32_t end = segments[i].address + segments[i].memory_bytes;
            module->bytes = end > module->bytes ? end : module->bytes;
        }
    module->base = module->bytes ? map_memory(module->bytes) : NULL;
    if (!module->base || map_segments(module, file, segments, header.segment_count) != 0)
        return unload_module(module), fail("damaged shared object:", path);
    uint32_t *dynamic = module->dynamic;
    if (relocate(module, dynamic[DT_RELA], dynamic[DT_RELASZ]) != 0 ||
        relocate(module, dynamic[DT_JMPREL], dynamic[DT_PLTRELSZ]) != 0)
        return unload_module(module), NULL;
    protect(module, segments, header.segment_count);
    return module;
}

struct module *load_module(const char *path) {
    int file = open_file(path, O_RDONLY);
    if (file < 0)
        return fail("cannot open", path);
    struct module *module = map_module(file, path);
    close_file(file);
    if (module == NULL)
        return NULL;
    struct module **end = &oldest;
    while (*end != NULL)
        end = &(*end)->next;
    *end = module;
    initialize(module);
    return module;
}

void unload_module(struct module *module) {
    for (struct module **one = &oldest; *one != NULL; one = &(*one)->next)
        if (*one == module) {
            *one = module->next;
            break;
        }
    if (module->base != NULL)
        system_call(SYS_MUNMAP, (uint32_t)module->base, module->bytes, 0, 0, 0, 0);
    free(module);
}

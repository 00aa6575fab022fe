/* A stand-in for the DSP's side of run_main_on_hexagon: loads shared objects under qemu-hexagon.
 *
 * Freestanding. It resolves the imports of a shared object from a table (imports.c) and from the
 * objects loaded before it, calls `main` on a stack of its own and tells what became of it as the
 * real tool does. What it does wrong on purpose is read from a file (faults.c).
 */
#ifndef PHONE_LOADER_H
#define PHONE_LOADER_H

#include <stddef.h>
#include <stdint.h>

/* system.c: system calls (numbers of Linux, asm-generic/unistd.h); negative results are errno. */
int32_t system_call(int32_t number, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e,
                    uint32_t f);
__attribute__((noreturn)) void leave(int status);
void *map_memory(uint32_t bytes); /* zeroed; NULL if there is none */
int open_file(const char *path, int flags);
void close_file(int descriptor);
int read_fully(int descriptor, uint32_t offset, void *to, uint32_t bytes); /* 0 if all came */
uint32_t read_text(const char *path, char *to, uint32_t room); /* bytes; ends with 0 */
void write_text(const char *path, const char *text);
__attribute__((noreturn)) void hang(void); /* without using the processor */
uint64_t wall_ms(void);
void say(int descriptor, const char *text);
void say_number(int descriptor, int32_t value);
void say_hex(int descriptor, uint32_t value);

enum { O_RDONLY = 0, O_WRONLY = 1, O_RDWR = 2, O_CREAT = 0100, O_TRUNC = 01000, O_APPEND = 02000 };

/* elf.c: shared objects. A failure leaves its reason, which is never NULL then. */
struct module;
struct module *load_module(const char *path);
void unload_module(struct module *module);
void *module_symbol(struct module *module, const char *name);
extern char load_failure[240];

/* imports.c: what a shared object may call; NULL if nothing has this name. */
void *provided(const char *name);

/* memory.c: the C library's memory and strings. */
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *old, size_t bytes);
void *memalign(size_t alignment, size_t bytes);
int posix_memalign(void **to, size_t alignment, size_t bytes);
void free(void *pointer);
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t bytes);
char *strcpy(char *restrict to, const char *restrict from);
unsigned long strtoul(const char *text, char **end, int base);
long strtol(const char *text, char **end, int base);
int atoi(const char *text);

/* files.c: the C library's files. */
struct stream;
struct stream *fopen(const char *path, const char *mode);
int fclose(struct stream *stream);
size_t fread(void *to, size_t size, size_t count, struct stream *stream);
size_t fwrite(const void *from, size_t size, size_t count, struct stream *stream);
int fseek(struct stream *stream, long offset, int whence);
long ftell(struct stream *stream);
int fflush(struct stream *stream);
int remove(const char *path);
int rename(const char *from, const char *to);

/* clock.c: packets as cycles, distorted as the faults ask for. */
uint64_t pcycles(void);
uint64_t time_us(void);

/* faults.c: what goes wrong on purpose. Rates are parts per million. */
struct faults {
    uint32_t seed;
    uint32_t cycles_ppm;      /* cycles a packet: 1,000,000 is one */
    uint32_t noise_ppm;       /* every interval of the clock is up to this much longer */
    uint32_t spike_ppm;       /* one interval in eight is this much longer still */
    uint32_t throttled_ppm;   /* while hot, every interval is this much longer */
    uint32_t hot_after;       /* packets since the last rest; 0: never hot */
    uint32_t rest_ms;         /* wall time without a run that cools down */
    uint32_t crash_at_write;  /* the number of the write during which the process dies; 0: none */
    uint32_t hang_at_write;   /* likewise, that never comes back */
    uint32_t hang_at_start;   /* not 0: main is never called */
    uint32_t keep_bytes_ppm;  /* a run's later part of each file is lost, in silence; 0: nothing */
    uint32_t flip_from_bytes; /* in every write this long one bit is wrong; 0: none */
};
extern struct faults faults;
void read_faults(void);
void keep_history(void);       /* at the end of a run: what the next one must know */
uint32_t random_below(uint32_t limit); /* by seed and number of runs */
int is_hot(uint64_t packets_of_run);

#endif

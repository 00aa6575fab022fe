/* The C library's files without buffers, and the faults of writing. */
#include "loader.h"

enum { SYS_UNLINKAT = 35, SYS_LLSEEK = 62, SYS_READ = 63, SYS_WRITE = 64, SYS_RENAMEAT2 = 276 };
enum { AT_FDCWD = -100, EXIT_CRASHED = 13 };

struct stream {
    int descriptor;
    uint64_t written, lost_from;
};

static uint32_t writes;

struct stream *fopen(const char *path, const char *mode) {
    int update = mode[1] == '+' || (mode[1] != 0 && mode[2] == '+');
    int flags = update ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    if (mode[0] == 'w')
        flags |= O_CREAT | O_TRUNC;
    if (mode[0] == 'a')
        flags |= O_CREAT | O_APPEND;
    int descriptor = open_file(path, flags);
    if (descriptor < 0)
        return NULL;
    struct stream *stream = calloc(1, sizeof *stream);
    stream->descriptor = descriptor;
    return stream;
}

int fclose(struct stream *stream) {
    close_file(stream->descriptor);
    free(stream);
    return 0;
}

size_t fread(void *to, size_t size, size_t count, struct stream *stream) {
    uint32_t done = 0, wanted = size * count;
    while (done < wanted) {
        int32_t came = system_call(SYS_READ, (uint32_t)stream->descriptor, (uint32_t)to + done,
                                   wanted - done, 0, 0, 0);
        if (came <= 0)
            break;
        done += (uint32_t)came;
    }
    return size ? done / size : 0;
}

static uint32_t write_fully(struct stream *stream, const uint8_t *from, uint32_t bytes) {
    uint32_t done = 0;
    while (done < bytes) {
        int32_t went = system_call(SYS_WRITE, (uint32_t)stream->descriptor, (uint32_t)from + done,
                                   bytes - done, 0, 0, 0);
        if (went <= 0)
            break;
        done += (uint32_t)went;
    }
    return done;
}

/* One bit of what is written is not what memory holds. */
static uint32_t write_flipped(struct stream *stream, const uint8_t *from, uint32_t bytes) {
    uint32_t at = random_below(bytes);
    uint8_t wrong = from[at] ^ (uint8_t)(1u << random_below(8));
    uint32_t done = write_fully(stream, from, at);
    if (done == at)
        done += write_fully(stream, &wrong, 1);
    return done == at + 1 ? done + write_fully(stream, from + at + 1, bytes - at - 1) : done;
}

static void fail_at(uint32_t number) {
    if (number == faults.crash_at_write) {
        say(1, "ERROR 0x8000040d: run_main_on_hexagon failed\n");
        leave(EXIT_CRASHED);
    }
    if (number == faults.hang_at_write)
        hang();
}

size_t fwrite(const void *from, size_t size, size_t count, struct stream *stream) {
    uint32_t bytes = size * count, done = 0, lost = 0;
    if (bytes == 0)
        return 0;
    fail_at(++writes);
    if (faults.keep_bytes_ppm)
        lost = bytes - (uint32_t)((uint64_t)bytes * faults.keep_bytes_ppm / 1000000);
    if (faults.flip_from_bytes && bytes >= faults.flip_from_bytes)
        done = write_flipped(stream, from, bytes);
    else
        done = write_fully(stream, from, bytes - lost) + lost;
    return done / size;
}

int fseek(struct stream *stream, long offset, int whence) {
    uint64_t position;
    return system_call(SYS_LLSEEK, (uint32_t)stream->descriptor, offset < 0 ? 0xffffffffu : 0,
                       (uint32_t)offset, (uint32_t)&position, (uint32_t)whence, 0) < 0
               ? -1
               : 0;
}

long ftell(struct stream *stream) {
    uint64_t position = 0;
    int32_t result = system_call(SYS_LLSEEK, (uint32_t)stream->descriptor, 0, 0,
                                 (uint32_t)&position, 1, 0);
    return result < 0 ? -1 : (long)position;
}

int fflush(struct stream *stream) { return (void)stream, 0; }

int remove(const char *path) {
    return system_call(SYS_UNLINKAT, (uint32_t)AT_FDCWD, (uint32_t)path, 0, 0, 0, 0) < 0 ? -1 : 0;
}

int rename(const char *from, const char *to) {
    return system_call(SYS_RENAMEAT2, (uint32_t)AT_FDCWD, (uint32_t)from, (uint32_t)AT_FDCWD,
                       (uint32_t)to, 0, 0) < 0
               ? -1
               : 0;
}

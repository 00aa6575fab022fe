/* What the loader asks of Linux, which QEMU hands on to the machine. */
#include "loader.h"

enum {
    SYS_LLSEEK = 62,
    SYS_OPENAT = 56,
    SYS_CLOSE = 57,
    SYS_READ = 63,
    SYS_WRITE = 64,
    SYS_EXIT_GROUP = 94,
    SYS_NANOSLEEP = 101,
    SYS_MMAP = 222,
    SYS_CLOCK_GETTIME64 = 403,
};
enum { AT_FDCWD = -100, READ_WRITE = 3, PRIVATE_ANONYMOUS_NORESERVE = 0x4022, MONOTONIC = 1 };

int32_t system_call(int32_t number, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e,
                    uint32_t f) {
    register uint32_t r0 __asm__("r0") = a;
    register uint32_t r1 __asm__("r1") = b;
    register uint32_t r2 __asm__("r2") = c;
    register uint32_t r3 __asm__("r3") = d;
    register uint32_t r4 __asm__("r4") = e;
    register uint32_t r5 __asm__("r5") = f;
    register int32_t r6 __asm__("r6") = number;
    __asm__ volatile("trap0(#1)"
                     : "+r"(r0)
                     : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6)
                     : "memory");
    return (int32_t)r0;
}

void leave(int status) {
    keep_history();
    for (;;)
        system_call(SYS_EXIT_GROUP, (uint32_t)status, 0, 0, 0, 0, 0);
}

void hang(void) {
    struct {
        int32_t seconds, nanoseconds;
    } hour = {3600, 0};
    for (;;)
        system_call(SYS_NANOSLEEP, (uint32_t)&hour, 0, 0, 0, 0, 0);
}

void *map_memory(uint32_t bytes) {
    int32_t got = system_call(SYS_MMAP, 0, bytes, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE,
                              (uint32_t)-1, 0);
    return got < 0 && got > -4096 ? NULL : (void *)got;
}

int open_file(const char *path, int flags) {
    return system_call(SYS_OPENAT, (uint32_t)AT_FDCWD, (uint32_t)path, (uint32_t)flags, 0600, 0, 0);
}

void close_file(int descriptor) { system_call(SYS_CLOSE, (uint32_t)descriptor, 0, 0, 0, 0, 0); }

int read_fully(int descriptor, uint32_t offset, void *to, uint32_t bytes) {
    uint64_t position;
    if (system_call(SYS_LLSEEK, (uint32_t)descriptor, 0, offset, (uint32_t)&position, 0, 0) < 0)
        return -1;
    for (uint32_t done = 0; done < bytes;) {
        int32_t came = system_call(SYS_READ, (uint32_t)descriptor, (uint32_t)to + done,
                                   bytes - done, 0, 0, 0);
        if (came <= 0)
            return -1;
        done += (uint32_t)came;
    }
    return 0;
}

uint32_t read_text(const char *path, char *to, uint32_t room) {
    int descriptor = open_file(path, O_RDONLY);
    int32_t came = -1;
    if (descriptor >= 0) {
        came = system_call(SYS_READ, (uint32_t)descriptor, (uint32_t)to, room - 1, 0, 0, 0);
        close_file(descriptor);
    }
    uint32_t bytes = came > 0 ? (uint32_t)came : 0;
    to[bytes] = 0;
    return bytes;
}

void write_text(const char *path, const char *text) {
    int descriptor = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (descriptor >= 0) {
        say(descriptor, text);
        close_file(descriptor);
    }
}

uint64_t wall_ms(void) {
    struct {
        int64_t seconds, nanoseconds;
    } now = {0, 0};
    system_call(SYS_CLOCK_GETTIME64, MONOTONIC, (uint32_t)&now, 0, 0, 0, 0);
    return (uint64_t)now.seconds * 1000 + (uint32_t)now.nanoseconds / 1000000;
}

void say(int descriptor, const char *text) {
    system_call(SYS_WRITE, (uint32_t)descriptor, (uint32_t)text, strlen(text), 0, 0, 0);
}

void say_number(int descriptor, int32_t value) {
    char digits[12];
    char *first = digits + sizeof digits - 1;
    uint32_t left = value < 0 ? -(uint32_t)value : (uint32_t)value;
    *first = 0;
    do
        *--first = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--first = '-';
    say(descriptor, first);
}

void say_hex(int descriptor, uint32_t value) {
    char digits[11] = "0x";
    int at = 2;
    for (int shift = 28; shift >= 0; shift -= 4)
        if (value >> shift != 0 || shift == 0)
            digits[at++] = "0123456789abcdef"[value >> shift & 15];
    digits[at] = 0;
    say(descriptor, digits);
}

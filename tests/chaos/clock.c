/* Shows a process a clock that is wrong: the seconds in the file that CHAOS_CLOCK names are added
 * to the time of day, and to nothing else. Preloaded; the file is mapped, so that a change counts at
 * once. (libfaketime 0.9.10 makes Python's time.sleep fail with EINVAL.) */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static const volatile double *offset_s;

__attribute__((constructor)) static void find_offset(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset_s = mapped;
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        double shift = *offset_s;
        long long ns = now->tv_nsec + (long long)(shift * 1e9);
        now->tv_sec += ns / 1000000000 - (ns % 1000000000 < 0);
        now->tv_nsec = ns % 1000000000 + (ns % 1000000000 < 0 ? 1000000000 : 0);
    }
    return failed;
}

SHOWN int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

SHOWN time_t time(time_t *result)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (result)
        *result = precise.tv_sec;
    return precise.tv_sec;
}

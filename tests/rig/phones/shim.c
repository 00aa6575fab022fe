/* Preloaded into adbd: keeps it on loopback, and lets the test pull its cable or hold its disk.
 *
 * The rest of the daemon is as Debian built it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNPLUGGED "/vendor/rig/unplugged" /* while it exists nobody can connect */
#define HELD "/vendor/rig/held" /* while it exists, what is pushed does not come to the disk */
#define DISK "/data"
#define READY_VARIABLE "RIG_READY" /* the descriptor that is told once adbd listens */

#define SHOWN __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

SHOWN int bind(int descriptor, const struct sockaddr *address, socklen_t bytes) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in here = *(const struct sockaddr_in *)address;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return NEXT(bind)(descriptor, (struct sockaddr *)&here, sizeof here);
    }
    if (address->sa_family == AF_INET6) { /* a socket for both kinds: ::ffff:127.0.0.1 */
        struct sockaddr_in6 here = *(const struct sockaddr_in6 *)address;
        memset(&here.sin6_addr, 0, sizeof here.sin6_addr);
        memset(here.sin6_addr.s6_addr + 10, 0xff, 2);
        memcpy(here.sin6_addr.s6_addr + 12, "\x7f\0\0\1", 4);
        return NEXT(bind)(descriptor, (struct sockaddr *)&here, sizeof here);
    }
    if (address->sa_family == AF_UNIX)
        return NEXT(bind)(descriptor, address, bytes);
    errno = EAFNOSUPPORT; /* vsock would reach beyond this machine */
    return -1;
}

SHOWN int listen(int descriptor, int backlog) {
    int result = NEXT(listen)(descriptor, backlog);
    struct sockaddr_storage name;
    socklen_t bytes = sizeof name;
    const char *ready = getenv(READY_VARIABLE);
    if (result == 0 && ready != NULL &&
        getsockname(descriptor, (struct sockaddr *)&name, &bytes) == 0 &&
        name.ss_family != AF_UNIX) {
        int told = atoi(ready);
        if (NEXT(write)(told, "1", 1) == 1)
            close(told);
        unsetenv(READY_VARIABLE);
    }
    return result;
}

SHOWN int accept4(int descriptor, struct sockaddr *address, socklen_t *bytes, int flags) {
    for (;;) {
        int came = NEXT(accept4)(descriptor, address, bytes, flags);
        if (came < 0 || access(UNPLUGGED, F_OK) != 0)
            return came;
        close(came);
    }
}

SHOWN int accept(int descriptor, struct sockaddr *address, socklen_t *bytes) {
    return accept4(descriptor, address, bytes, 0);
}

static int on_the_disk(int descriptor) {
    struct stat file, disk;
    return fstat(descriptor, &file) == 0 && stat(DISK, &disk) == 0 && file.st_dev == disk.st_dev;
}

SHOWN ssize_t write(int descriptor, const void *from, size_t bytes) {
    if (access(HELD, F_OK) == 0 && on_the_disk(descriptor))
        while (access(HELD, F_OK) == 0)
            usleep(2000);
    return NEXT(write)(descriptor, from, bytes);
}

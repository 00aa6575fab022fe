#define _GNU_SOURCE
#include "sandbox.h"

#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534 /* the overflow user of every Linux: owns nothing */

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#error "add the machine's AUDIT_ARCH of linux/audit.h"
#endif

static uint32_t layers;

uint32_t sandbox_layers(void) { return layers; }

/* User namespaces need a process of one thread: QEMU starts another before it loads plugins. The
 * launcher has the dynamic linker load this first; where it could not, the calls fail. */
__attribute__((constructor)) static void leave_the_network(void) {
    int apart = CLONE_NEWNET | CLONE_NEWIPC;
    if (unshare(apart) == 0 || unshare(CLONE_NEWUSER | apart) == 0)
        layers |= SANDBOX_NO_NETWORK;
}

static bool bound(int resource, uint64_t soft, uint64_t hard) {
    struct rlimit limits = {soft, hard};
    return setrlimit(resource, &limits) == 0;
}

void sandbox_bound(const struct sandbox_limits *limits, uint32_t launcher) {
    bool all = bound(RLIMIT_CORE, 0, 0);
    /* A hard limit above the soft one: time-outs are then told by their signal, SIGXCPU. */
    all &= bound(RLIMIT_CPU, limits->cpu_seconds, limits->cpu_seconds + 1);
    all &= bound(RLIMIT_AS, limits->address_space_bytes, limits->address_space_bytes);
    all &= bound(RLIMIT_FSIZE, limits->output_bytes, limits->output_bytes);
    all &= bound(RLIMIT_NPROC, 0, 0);
    all &= bound(RLIMIT_MSGQUEUE, 0, 0);
    if (all)
        layers |= SANDBOX_LIMITS;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((uint32_t)getppid() != launcher) /* it died before the line above */
        _exit(3);
}

/* Where there is no landlock this keeps files away: the directory holds numbers to look at. */
static void empty_root(void) {
    if (chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0)
        layers |= SANDBOX_EMPTY_ROOT;
}

static void drop_privileges(void) {
    if (geteuid() == 0 && setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
        setresuid(NOBODY, NOBODY, NOBODY) == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user cancels it */
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    bool dropped = syscall(SYS_capset, &header, none) == 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && dropped)
        layers |= SANDBOX_NO_PRIVILEGES;
}

/* All rights the kernel knows are handled, and no rule grants one (linux/landlock.h; versions as
 * in the kernel's userspace-api/landlock.rst). */
static void forbid_files(void) {
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return;
    static const uint8_t file_rights[] = {13, 14, 15, 15, 16};
    struct {
        uint64_t files, net, scopes;
    } handled = {(1u << file_rights[version < 5 ? version - 1 : 4]) - 1, 0, 0};
    if (version >= 4)
        handled.net = 3; /* bind and connect TCP */
    if (version >= 6)
        handled.scopes = 3; /* abstract sockets and signals stay within */
    size_t bytes = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, bytes, 0);
    if (ruleset < 0)
        return;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) == 0)
        layers |= SANDBOX_LANDLOCK;
    close(ruleset);
}

#define FIELD(name) ((uint32_t)offsetof(struct seccomp_data, name))
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(field))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), ANSWER(SECCOMP_RET_ALLOW)
/* Only with this first argument. */
#define ALLOW_FOR(number, argument)                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 4), LOAD(args[0]),                            \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (argument), 0, 1), ANSWER(SECCOMP_RET_ALLOW),          \
        ANSWER(SECCOMP_RET_ERRNO | 1)
/* With either of these. */
#define ALLOW_FOR_BOTH(number, one, other)                                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 5), LOAD(args[0]),                            \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (one), 1, 0),                                          \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (other), 0, 1), ANSWER(SECCOMP_RET_ALLOW),             \
        ANSWER(SECCOMP_RET_ERRNO | 1)

/* What QEMU calls from the first simulated instruction on: memory, signals, locks, its last words.
 * No call here makes a descriptor, a process or a thread. All else fails with EPERM, so that a
 * libc that asks for something harmless goes on without it. */
static void forbid_system_calls(bool messages) {
    uint32_t self = (uint32_t)getpid();
    uint32_t input = messages ? STDIN_FILENO : UINT32_MAX;
    uint32_t output = messages ? STDOUT_FILENO : STDERR_FILENO;
    struct sock_filter program[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mprotect),
        ALLOW(SYS_mremap),
        ALLOW(SYS_madvise),
        ALLOW(SYS_brk),
        ALLOW(SYS_fstat), /* both: of descriptors to be mapped */
        ALLOW(SYS_newfstatat),
        ALLOW(SYS_futex),
        ALLOW(SYS_membarrier),
        ALLOW(SYS_sched_yield),
        ALLOW(SYS_clock_gettime),
        ALLOW(SYS_clock_nanosleep),
        ALLOW(SYS_nanosleep),
        ALLOW(SYS_restart_syscall),
        ALLOW(SYS_rt_sigaction),
        ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_rt_sigsuspend),
        ALLOW(SYS_sigaltstack),
        /* QEMU's second thread may only now be starting. */
        ALLOW(SYS_set_robust_list),
        ALLOW(SYS_rseq),
        ALLOW(SYS_getpid),
        ALLOW(SYS_gettid),
        ALLOW(SYS_exit),
        ALLOW(SYS_exit_group),
        ALLOW_FOR(SYS_kill, self),
        ALLOW_FOR(SYS_tgkill, self),
        ALLOW_FOR(SYS_read, input), /* none has the number UINT32_MAX */
        ALLOW_FOR_BOTH(SYS_write, STDERR_FILENO, output),
        ANSWER(SECCOMP_RET_ERRNO | 1),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0)
        layers |= SANDBOX_SECCOMP;
}

void sandbox_close(bool messages) {
    empty_root();
    drop_privileges();
    forbid_files();
    bound(RLIMIT_NOFILE, 0, 0); /* descriptors that are open stay so; there will be no other */
    forbid_system_calls(messages);
}

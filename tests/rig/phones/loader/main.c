/* run_main_on_hexagon DOMAIN PATH.so [stack_size=N] [arguments]: `main` of a shared object.
 *
 * The exit status says whether main could be called and came back; what it returned is printed.
 * Statuses are the last byte of FastRPC's errors: 13 after a crash, 6 for what cannot be loaded.
 */
#include "loader.h"

enum { SYS_SIGALTSTACK = 132, SYS_SIGACTION = 134, SYS_MPROTECT = 226, SA_ONSTACK = 0x08000000 };
enum { EXIT_BAD_CALL = 14, EXIT_NOT_LOADED = 6, EXIT_CRASHED = 13, CDSP = 3 };
enum { SIGILL = 4, SIGTRAP = 5, SIGABRT = 6, SIGBUS = 7, SIGFPE = 8, SIGSEGV = 11 };
enum { DEFAULT_STACK = 1 << 20, HANDLER_STACK = 1 << 16, GUARD = 1 << 16, MOST_STACK = 1 << 28 };

int call_on_stack(int argc, char **argv, void *function, void *stack_top);

const char *library_path;

static __attribute__((noreturn)) void refuse(int status, uint32_t code, const char *reason) {
    say(1, "ERROR ");
    say_hex(1, code);
    say(1, ": run_main_on_hexagon failed\n");
    say(2, reason);
    say(2, "\n");
    leave(status);
}

static void crashed(int number) {
    (void)number;
    refuse(EXIT_CRASHED, 0x8000040d, "the process on the DSP has crashed");
}

static void catch_crashes(void) {
    struct {
        void *base;
        int32_t flags;
        uint32_t bytes;
    } stack = {map_memory(HANDLER_STACK), 0, HANDLER_STACK};
    uint32_t action[4] = {(uint32_t)crashed, SA_ONSTACK, 0, 0};
    system_call(SYS_SIGALTSTACK, (uint32_t)&stack, 0, 0, 0, 0, 0);
    static const int signals[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        system_call(SYS_SIGACTION, (uint32_t)signals[i], (uint32_t)action, 0, 8, 0, 0);
}

static const char *environment_value(char **environment, const char *name) {
    size_t length = strlen(name);
    for (; *environment != NULL; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

__attribute__((noreturn, used)) void loader_main(uint32_t *at_start) {
    int argc = (int)at_start[0];
    char **argv = (char **)(at_start + 1), **environment = argv + argc + 1;
    read_faults();
    if (argc < 3)
        refuse(EXIT_BAD_CALL, 0x8000000e, "usage: run_main_on_hexagon DOMAIN PATH.so [arguments]");
    if (atoi(argv[1]) != CDSP)
        refuse(EXIT_BAD_CALL, 0x8000000e, "this phone has no such domain: only 3, the CDSP");
    library_path = environment_value(environment, "DSP_LIBRARY_PATH");
    uint32_t stack_bytes = DEFAULT_STACK;
    int skipped = 2;
    if (argc > 3 && strncmp(argv[3], "stack_size=", 11) == 0) {
        stack_bytes = strtoul(argv[3] + 11, NULL, 0);
        argv[3] = argv[2];
        skipped = 3;
    }
    if (stack_bytes < 4096 || stack_bytes > MOST_STACK)
        refuse(EXIT_BAD_CALL, 0x8000000e, "no such stack_size");
    void *(*open_library)(const char *, int) = provided("dlopen");
    struct module *module = open_library(argv[skipped], 0);
    void *function = module ? module_symbol(module, "main") : NULL;
    if (function == NULL)
        refuse(EXIT_NOT_LOADED, 0x80000406, load_failure);
    if (faults.hang_at_start)
        hang();
    catch_crashes();
    uint8_t *stack = map_memory(GUARD + stack_bytes);
    system_call(SYS_MPROTECT, (uint32_t)stack, GUARD, 0, 0, 0, 0); /* mprotect: running out of it traps */
    pcycles();
    uint32_t top = (uint32_t)(stack + GUARD + stack_bytes) & -128u;
    int result = call_on_stack(argc - skipped, argv + skipped, function, (void *)top);
    say(1, "Main on Hexagon DSP returned ");
    say_number(1, result);
    say(1, "\n");
    leave(0);
}

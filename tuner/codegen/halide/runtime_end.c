/* The end of Halide's standalone runtime: gives back the buffers that it keeps for small requests.
 *
 * Its own frees all ten of them, also those that nobody has asked for yet: at the end of a program,
 * or when a library is unloaded, it reads before address 0. That one is weak; this one is taken.
 */
#include <stddef.h>

void free(void *memory);
extern void *buffers[10] __asm__("_ZN6Halide7Runtime8Internal7mem_bufE");

/* Halide::Runtime::Internal::halide_allocator_cleanup() */
void _ZN6Halide7Runtime8Internal24halide_allocator_cleanupEv(void) {
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i] != NULL)
            free(((void **)buffers[i])[-1]); /* what malloc gave, before the aligned part of it */
}

/* Loaded before libHalide: the folder that Halide makes for every compilation, always in /tmp and
 * always empty, comes into the current directory instead, which is the compile server's own. So it
 * goes away with the server's other files, however the compilation ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

__attribute__((visibility("default"))) char *mkdtemp(char *template) {
    if (strcmp(template, "/tmp/XXXXXX") == 0)
        strcpy(template, "XXXXXX");
    char *(*next)(char *) = (char *(*)(char *))dlsym(RTLD_NEXT, "mkdtemp");
    return next(template);
}

/* What Halide's no_runtime objects call: errors become the report's message, locks do nothing
 * (a simulated candidate has the vector unit to itself), parallel loops run one task at a time.
 */
#include <stdarg.h>
#include <stddef.h>

#include "harness.h"

static char *append_text(char *at, const char *end, const char *text) {
    while (text != NULL && *text != 0 && at < end)
        *at++ = *text++;
    return at;
}

static char *append_number(char *at, const char *end, int value) {
    char digits[12];
    char *first = digits + sizeof digits - 1;
    uint32_t left = value < 0 ? -(uint32_t)value : (uint32_t)value;
    *first = 0;
    do
        *--first = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--first = '-';
    return append_text(at, end, first);
}

/* Keeps the first message of a run: %s and %d only. Returns `code`. */
static int fail(int code, const char *format, ...) {
    char *at = runtime.report->message;
    const char *end = at + IMAGE_MESSAGE_BYTES - 1;
    if (*at != 0)
        return code;
    va_list values;
    va_start(values, format);
    for (; *format != 0 && at < end; format++)
        if (format[0] == '%' && format[1] == 's')
            at = append_text(at, end, va_arg(values, const char *)), format++;
        else if (format[0] == '%' && format[1] == 'd')
            at = append_number(at, end, va_arg(values, int)), format++;
        else
            *at++ = *format;
    va_end(values);
    *at = 0;
    return code;
}

/* The codes are those of halide_error_code_t. */
typedef void *context;

void halide_error(context c, const char *message) { (void)c, fail(-1, "%s", message); }
int halide_error_explicit_bounds_too_small(context c, const char *func, const char *var, int min,
                                           int max, int min_required, int max_required) {
    (void)c;
    return fail(-2, "bounds of %s over %s are %d to %d, required %d to %d", func, var, min, max,
                min_required, max_required);
}
int halide_error_bad_type(context c, const char *func, uint32_t given, uint32_t correct) {
    (void)c;
    return fail(-3, "%s has element type %d, not %d", func, (int)given, (int)correct);
}
int halide_error_access_out_of_bounds(context c, const char *func, int dimension, int min_touched,
                                      int max_touched, int min_valid, int max_valid) {
    (void)c;
    return fail(-4, "%s is accessed at %d to %d in dimension %d, which reaches from %d to %d", func,
                min_touched, max_touched, dimension, min_valid, max_valid);
}
int halide_error_buffer_allocation_too_large(context c, const char *name, uint64_t size,
                                             uint64_t most) {
    (void)c, (void)size, (void)most;
    return fail(-5, "the allocation of buffer %s is too large", name);
}
int halide_error_buffer_extents_too_large(context c, const char *name, int64_t size, int64_t most) {
    (void)c, (void)size, (void)most;
    return fail(-6, "the extents of buffer %s are too large", name);
}
int halide_error_constraints_make_required_region_smaller(context c, const char *name,
                                                          int dimension, int min, int extent,
                                                          int required_min, int required_extent) {
    (void)c;
    return fail(-7, "constraints on dimension %d of %s give %d+%d, required %d+%d", dimension, name,
                min, extent, required_min, required_extent);
}
int halide_error_constraint_violated(context c, const char *var, int value, const char *constrained,
                                     int constrained_value) {
    (void)c;
    return fail(-8, "constraint violated: %s (%d) == %s (%d)", var, value, constrained,
                constrained_value);
}
int halide_error_param_too_small_i64(context c, const char *name, int64_t given, int64_t least) {
    return (void)c, fail(-9, "%s is %d, less than %d", name, (int)given, (int)least);
}
int halide_error_param_too_small_u64(context c, const char *name, uint64_t given, uint64_t least) {
    return halide_error_param_too_small_i64(c, name, (int64_t)given, (int64_t)least);
}
int halide_error_param_too_large_i64(context c, const char *name, int64_t given, int64_t most) {
    return (void)c, fail(-10, "%s is %d, more than %d", name, (int)given, (int)most);
}
int halide_error_param_too_large_u64(context c, const char *name, uint64_t given, uint64_t most) {
    return halide_error_param_too_large_i64(c, name, (int64_t)given, (int64_t)most);
}
int halide_error_out_of_memory(context c) { return (void)c, fail(-11, "out of memory"); }
int halide_error_buffer_argument_is_null(context c, const char *name) {
    (void)c;
    return fail(-12, "buffer argument %s is NULL", name);
}
int halide_error_unaligned_host_ptr(context c, const char *func, int alignment) {
    (void)c;
    return fail(-24, "the host pointer of %s is not aligned to %d bytes", func, alignment);
}
int halide_error_bad_fold(context c, const char *func, const char *var, const char *loop) {
    (void)c;
    return fail(-25, "%s cannot be folded over %s in the loop %s", func, var, loop);
}
int halide_error_fold_factor_too_small(context c, const char *func, const char *var, int factor,
                                       const char *loop, int required) {
    (void)c;
    return fail(-26, "the fold factor %d of %s over %s in the loop %s is less than %d", factor,
                func, var, loop, required);
}
int halide_error_requirement_failed(context c, const char *condition, const char *message) {
    (void)c;
    return fail(-27, "requirement failed: %s %s", condition, message);
}
int halide_error_buffer_extents_negative(context c, const char *name, int dimension, int extent) {
    (void)c;
    return fail(-28, "the extent of buffer %s in dimension %d is %d", name, dimension, extent);
}
int halide_error_specialize_fail(context c, const char *message) {
    (void)c;
    return fail(-31, "no specialization applies: %s", message);
}
int halide_error_host_is_null(context c, const char *func) {
    return (void)c, fail(-34, "the host pointer of %s is NULL", func);
}
int halide_error_bad_dimensions(context c, const char *func, int32_t given, int32_t correct) {
    return (void)c, fail(-43, "%s has %d dimensions, not %d", func, given, correct);
}
int halide_error_device_dirty_with_no_device_support(context c, const char *name) {
    return (void)c, fail(-44, "buffer %s is marked as changed on a device", name);
}
int halide_error_storage_bound_too_small(context c, const char *func, const char *var, int given,
                                         int required) {
    (void)c;
    return fail(-45, "the storage of %s over %s holds %d, required %d", func, var, given, required);
}
int halide_error_split_factor_not_positive(context c, const char *func, const char *original,
                                           const char *outer, const char *inner,
                                           const char *factor_text, int factor) {
    (void)c, (void)outer, (void)inner;
    return fail(-47, "%s: %s is split by %s, which is %d", func, original, factor_text, factor);
}

void halide_print(context c, const char *text) { (void)c, (void)text; }
int halide_msan_annotate_memory_is_initialized(context c, const void *at, uint64_t bytes) {
    return (void)c, (void)at, (void)bytes, 0;
}
char *halide_string_to_string(char *at, char *end, const char *text) {
    if (at >= end)
        return at;
    at = append_text(at, end - 1, text);
    *at = 0;
    return at;
}
char *halide_int64_to_string(char *at, char *end, int64_t value, int digits) {
    (void)digits;
    if (at >= end)
        return at;
    at = append_number(at, end - 1, (int)value);
    *at = 0;
    return at;
}

int qurt_hvx_lock(int mode) { return (void)mode, 0; }
int qurt_hvx_unlock(void) { return 0; }
int halide_qurt_hvx_lock(context c) { return (void)c, 0; }
int halide_qurt_hvx_unlock(context c) { return (void)c, 0; }

int halide_do_par_for(context c, int (*task)(context, int, uint8_t *), int min, int extent,
                      uint8_t *closure) {
    int result = 0;
    hvxtune_loop_begins();
    for (int i = min; i < min + extent && result == 0; i++) {
        hvxtune_task_begins();
        result = task(c, i, closure);
    }
    hvxtune_loop_ends();
    return result;
}

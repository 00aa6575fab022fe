#include "buffers.h"

/* `next` leads to the buffer that follows in memory; the list begins in slot 0 and ends there. */
struct slot {
    hvxtune_buffer handle; /* 0 if free */
    uint32_t offset, bytes, next;
};

static struct slot slots[HVXTUNE_BUFFERS];
static uint8_t *arena;
static uint32_t arena_bytes, alignment;

static uint32_t aligned(uint32_t bytes) { return (bytes + alignment - 1) & -alignment; }

static uint32_t slot_of(hvxtune_buffer handle) {
    uint32_t slot = handle & 0xffff;
    return slot < HVXTUNE_BUFFERS ? slot : 0;
}

void buffers_open(uint8_t *base, uint32_t bytes, uint32_t multiple) {
    arena = base;
    arena_bytes = bytes & -multiple;
    alignment = multiple;
    for (uint32_t i = 0; i < HVXTUNE_BUFFERS; i++)
        slots[i] = (struct slot){0, 0, 0, 0};
}

enum hvxtune_status buffers_allocate(hvxtune_buffer handle, uint32_t bytes) {
    uint32_t slot = slot_of(handle), before = 0, begin = 0;
    if (slot == 0 || slots[slot].handle == handle)
        return HVXTUNE_BAD_BUFFER;
    if (slots[slot].handle != 0) /* the host gave it up, but the entry was behind one that failed */
        buffers_free(slots[slot].handle);
    if (bytes == 0)
        return HVXTUNE_BAD_SIZE;
    if (bytes > arena_bytes)
        return HVXTUNE_NO_MEMORY;
    for (uint32_t next; (next = slots[before].next) != 0; before = next) {
        if (slots[next].offset - begin >= aligned(bytes))
            break;
        begin = slots[next].offset + aligned(slots[next].bytes);
    }
    if (slots[before].next == 0 && arena_bytes - begin < aligned(bytes))
        return HVXTUNE_NO_MEMORY;
    slots[slot] = (struct slot){handle, begin, bytes, slots[before].next};
    slots[before].next = slot;
    return HVXTUNE_OK;
}

enum hvxtune_status buffers_free(hvxtune_buffer handle) {
    uint32_t slot = slot_of(handle), before = 0;
    if (slot == 0 || slots[slot].handle != handle)
        return HVXTUNE_BAD_BUFFER;
    while (slots[before].next != slot)
        before = slots[before].next;
    slots[before].next = slots[slot].next;
    slots[slot].handle = 0;
    return HVXTUNE_OK;
}

enum hvxtune_status buffers_find(hvxtune_buffer handle, uint32_t offset, uint64_t bytes,
                                 uint8_t **found) {
    uint32_t slot = slot_of(handle);
    if (slot == 0 || slots[slot].handle != handle)
        return HVXTUNE_BAD_BUFFER;
    if (offset > slots[slot].bytes || bytes > slots[slot].bytes - offset)
        return HVXTUNE_BAD_SIZE;
    *found = arena + slots[slot].offset + offset;
    return HVXTUNE_OK;
}

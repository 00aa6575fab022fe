/* What a packet reads and writes, and when in the pipeline, told from its disassembly. */
#ifndef HVXTUNE_PACKET_H
#define HVXTUNE_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#define MNEMONIC_BYTES 20
#define PACKET_READS 48
#define PACKET_WRITES 24

/* Register numbers: r0-r31, p0-p3, control registers, v0-v31, q0-q3. */
enum {
    REGISTER_R = 0,
    REGISTER_P = 32,
    REGISTER_C = 36,
    REGISTER_V = 68,
    REGISTER_Q = 100,
    REGISTER_COUNT = 104,
};

/* Forms of an instruction that a rule can ask for, beside its mnemonic. */
enum {
    FORM_ACCUMULATES = 1,   /* += and the like */
    FORM_SATURATES = 2,     /* :sat, :rnd, or a shift of the result */
    FORM_HALFWORDS = 4,     /* works on halves of scalar registers */
    FORM_NEW_PREDICATE = 8, /* conditional on a predicate of the same packet */
    FORM_WIDENS = 16,       /* writes a vector pair, reads single vectors */
    FORM_WRITES_CONTROL = 32,
    FORM_READS_CONTROL = 64,
};

/* What kind of packet it is. tuner/measure/qemu/events.py names the bits. */
enum trait {
    TRAIT_VECTOR = 1, /* needs an HVX context */
    TRAIT_SCALAR_LOAD = 2,
    TRAIT_SCALAR_STORE = 4,
    TRAIT_VECTOR_LOAD = 8,
    TRAIT_VECTOR_STORE = 16,
    TRAIT_UNALIGNED_LOAD = 32, /* vmemu */
    TRAIT_UNALIGNED_STORE = 64,
    TRAIT_GATHER = 128,
    TRAIT_SCATTER = 256,
    TRAIT_PREFETCH = 512, /* l2fetch, dcfetch */
    TRAIT_CONDITIONAL_JUMP = 1024,
    TRAIT_LOOP_END = 2048,
    TRAIT_SCALAR_ACCESS = TRAIT_SCALAR_LOAD | TRAIT_SCALAR_STORE,
    TRAIT_VECTOR_ACCESS = TRAIT_VECTOR_LOAD | TRAIT_VECTOR_STORE | TRAIT_GATHER | TRAIT_SCATTER,
};

/* A prefetch in a packet: of the line at base + offset, or of the box that `box` (and `box` + 1
 * if it is a pair) describes. */
struct prefetch {
    uint8_t base, box;
    bool is_box, is_pair;
    int32_t offset;
};

enum unit { UNIT_SCALAR, UNIT_VECTOR };

/* One line of the class table. Stages are LLVM's operand cycles; the first match decides.
 * tuner/measure/qemu/model.py writes the same layout. */
struct rule {
    char mnemonic[MNEMONIC_BYTES]; /* a trailing '*' matches any rest */
    uint8_t unit;
    uint8_t forms;       /* all of these must apply */
    uint8_t writes;      /* stage at which results are ready */
    uint8_t reads;       /* stage at which sources must be there */
    uint8_t accumulates; /* stage at which the register added to must be there */
    uint8_t scalars;     /* stage at which a vector instruction needs scalar registers */
    uint8_t predicates;  /* stage at which predicates (p and q) must be there */
    uint8_t cause;       /* what a wait for a source is booked under */
};

/* Stages of memory instructions, and the causes their waits are booked under. */
struct memory_stages {
    uint8_t base, modifier, scalar_data, vector_data, unaligned_vector_data;
    uint8_t scalar_load, vector_load, updated_base;
    uint8_t address_cause, data_cause;
};

struct class_table {
    const struct rule *rules;
    uint32_t count;
    struct memory_stages memory;
};

struct operand {
    uint8_t reg, stage, cause;
};

struct packet {
    struct operand read[PACKET_READS];
    struct operand write[PACKET_WRITES];
    uint8_t reads, writes;
    uint16_t traits; /* enum trait */
    struct prefetch prefetch; /* with TRAIT_PREFETCH */
};

/* Reads QEMU's disassembly of a packet: one instruction a line, or two joined by a semicolon.
 * Returns false if the packet holds more than fits. */
bool packet_parse(struct packet *packet, const struct class_table *table, const char *text);

#endif

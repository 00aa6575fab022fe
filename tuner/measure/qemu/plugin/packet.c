#include "packet.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "traits.h"

/* An instruction being read. `body` begins after its condition; `value` after its '='. */
struct reading {
    struct packet *packet;
    const struct class_table *table;
    const char *text, *body, *value, *end;
    enum unit unit;
    uint8_t forms;
    bool fits;
};

struct named_register {
    uint8_t first, count; /* count 0: no register here */
    bool is_new;          /* made in the same packet: read without waiting */
    const char *after;
};

static bool word_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The register that begins at `at`, e.g. R7, r17:16, V3:2, P0.new, N1.new (scalar), O1.new. */
static struct named_register register_at(const char *text, const char *at) {
    struct named_register none = {0, 0, false, at + 1};
    if (at > text && (word_character(at[-1]) || at[-1] == '#'))
        return none;
    int file;
    switch (tolower((unsigned char)*at)) {
    case 'r': file = REGISTER_R; break;
    case 'p': file = REGISTER_P; break;
    case 'c': file = REGISTER_C; break;
    case 'v': file = REGISTER_V; break;
    case 'q': file = REGISTER_Q; break;
    case 'm': file = REGISTER_C + 6; break; /* m0 is c6 */
    case 'n': case 'o': file = -1; break;
    default: return none;
    }
    if (!isdigit((unsigned char)at[1]))
        return none;
    char *rest;
    long high = strtol(at + 1, &rest, 10), low = high;
    if (rest[0] == ':' && isdigit((unsigned char)rest[1]))
        low = strtol(rest + 1, &rest, 10);
    struct named_register found = {0, 1, false, rest};
    if (high > 31 || low > high || high - low > 3 || word_character(*rest))
        return none;
    if (file < 0 || strncmp(rest, ".new", 4) == 0)
        found.is_new = true;
    found.first = (uint8_t)((file < 0 ? 0 : file) + low);
    found.count = (uint8_t)(high - low + 1);
    return found;
}

static bool is_vector_register(uint8_t reg) { return reg >= REGISTER_V; }
static bool is_predicate(uint8_t reg) {
    return reg >= REGISTER_Q || (reg >= REGISTER_P && reg < REGISTER_C);
}

static void add_read(struct reading *r, struct named_register reg, uint8_t stage, uint8_t cause) {
    for (int i = 0; i < reg.count && !reg.is_new; i++) {
        if (r->packet->reads == PACKET_READS) {
            r->fits = false;
            return;
        }
        r->packet->read[r->packet->reads++] =
            (struct operand){(uint8_t)(reg.first + i), stage, cause};
    }
}

static void add_write(struct reading *r, struct named_register reg, uint8_t stage) {
    for (int i = 0; i < reg.count; i++) {
        if (r->packet->writes == PACKET_WRITES) {
            r->fits = false;
            return;
        }
        r->packet->write[r->packet->writes++] =
            (struct operand){(uint8_t)(reg.first + i), stage, 0};
    }
}

static bool matches(const struct rule *rule, const char *name, size_t length) {
    size_t same = 0;
    while (same < length && rule->mnemonic[same] == name[same])
        same++;
    return rule->mnemonic[same] == '*' || (same == length && rule->mnemonic[same] == 0);
}

static const struct rule *find_rule(const struct reading *r, const char *name, size_t length) {
    for (uint32_t i = 0; i < r->table->count; i++) {
        const struct rule *rule = &r->table->rules[i];
        if (rule->unit == r->unit && (rule->forms & ~r->forms) == 0 && matches(rule, name, length))
            return rule;
    }
    return &r->table->rules[r->table->count - 1];
}

/* The name in front of the innermost parenthesis around `at`, within [from, at); "=" for none. */
static const char *enclosing_name(const char *from, const char *at, size_t *length) {
    int depth = 0;
    for (const char *p = at - 1; p >= from; p--) {
        if (*p == ')')
            depth++;
        else if (*p == '(' && depth-- == 0) {
            const char *first = p;
            while (first > from && (word_character(first[-1]) || first[-1] == '.'))
                first--;
            *length = (size_t)(p - first);
            if (*length > 0)
                return first;
            depth = 0;
        }
    }
    *length = 1;
    return "=";
}

/* The last name that a parenthesis follows: nested instructions finish with their inner part. */
static const struct rule *result_rule(const struct reading *r) {
    const char *innermost = r->value;
    for (const char *p = r->value; p < r->end; p++)
        if (*p == '(')
            innermost = p + 1;
    size_t length;
    const char *name = enclosing_name(r->value, innermost, &length);
    if (r->value == r->body && length == 1 && *name == '=') { /* a bare word such as nop */
        name = r->body;
        for (length = 0; word_character(name[length]);)
            length++;
    }
    return find_rule(r, name, length);
}

static bool has(const struct reading *r, const char *what) {
    const char *found = strstr(r->text, what);
    return found != NULL && found < r->end;
}

static bool is_control(struct named_register reg) {
    return reg.count > 0 && reg.first >= REGISTER_C && reg.first < REGISTER_V;
}

static bool names_source(const struct reading *r, bool (*wanted)(struct named_register)) {
    for (const char *p = r->value; p < r->end; p++)
        if (wanted(register_at(r->text, p)))
            return true;
    return false;
}

static bool is_vector_pair(struct named_register reg) {
    return reg.count == 2 && is_vector_register(reg.first);
}

static uint8_t forms_of(const struct reading *r, const char *equals) {
    uint8_t forms = 0;
    struct named_register target = register_at(r->text, r->body);
    if (equals != NULL && strchr("+-|&^", equals[-1]) != NULL)
        forms |= FORM_ACCUMULATES;
    if (has(r, ":sat") || has(r, ":rnd") || has(r, ":crnd") || has(r, ":<<") || has(r, ":>>"))
        forms |= FORM_SATURATES;
    if (has(r, ".H") || has(r, ".L") || has(r, ":hi") || has(r, ":lo"))
        forms |= FORM_HALFWORDS;
    if (r->body > r->text && has(r, ".new") && strstr(r->text, ".new") < r->body)
        forms |= FORM_NEW_PREDICATE;
    if (is_vector_pair(target) && !names_source(r, is_vector_pair))
        forms |= FORM_WIDENS;
    if (is_control(target))
        forms |= FORM_WRITES_CONTROL;
    if (names_source(r, is_control))
        forms |= FORM_READS_CONTROL;
    return forms;
}

/* Loads, stores and prefetches: mem*(...), vmem*(...), vgather(...), vscatter(...), dcfetch(...).
 * The registers in the parentheses are the address; a "++" or a "=" there writes the base back. */
static const char *read_address(struct reading *r, const char *open) {
    const struct memory_stages *m = &r->table->memory;
    const char *close = memchr(open, ')', (size_t)(r->end - open));
    bool first = true;
    for (const char *p = open; close != NULL && p < close;) {
        struct named_register reg = register_at(r->text, p);
        if (reg.count == 0) {
            p++;
            continue;
        }
        if (is_vector_register(reg.first)) /* the offsets of gather and scatter */
            add_read(r, reg, m->vector_data, m->data_cause);
        else if (reg.first >= REGISTER_C)
            add_read(r, reg, m->modifier, m->address_cause);
        else if (reg.after[0] != '=')
            add_read(r, reg, m->base, m->address_cause);
        if (first && (strncmp(reg.after, "++", 2) == 0 || reg.after[0] == '='))
            add_write(r, reg, m->updated_base);
        first = false;
        p = reg.after;
    }
    return close == NULL ? r->end : close + 1;
}

static const char *memory_access(const char *from, const char *end) {
    static const char *const names[] = {"mem", "vmem", "vgather", "vscatter", "dcfetch"};
    for (const char *p = from; p < end; p++) {
        if (p > from && word_character(p[-1]))
            continue;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(p, names[i], strlen(names[i])) == 0)
                return p;
        if (!isspace((unsigned char)*p))
            return NULL;
    }
    return NULL;
}

static void read_store(struct reading *r, const char *access) {
    const struct memory_stages *m = &r->table->memory;
    bool unaligned = strncmp(access, "vmemu", 5) == 0;
    const char *open = memchr(access, '(', (size_t)(r->end - access));
    const char *p = open == NULL ? r->end : read_address(r, open + 1);
    while (p < r->end) {
        struct named_register reg = register_at(r->text, p);
        uint8_t vector_stage = unaligned ? m->unaligned_vector_data : m->vector_data;
        add_read(r, reg, is_vector_register(reg.first) ? vector_stage : m->scalar_data,
                 m->data_cause);
        p = reg.after;
    }
}

static void read_load(struct reading *r, const char *access) {
    const struct memory_stages *m = &r->table->memory;
    struct named_register target = register_at(r->text, r->body);
    const char *open = memchr(access, '(', (size_t)(r->end - access));
    if (open != NULL)
        read_address(r, open + 1);
    add_write(r, target, is_vector_register(target.first) ? m->vector_load : m->scalar_load);
}

static void read_sources(struct reading *r, const struct rule *result) {
    for (const char *p = r->value; p < r->end;) {
        struct named_register reg = register_at(r->text, p);
        if (reg.count > 0) {
            size_t length;
            const char *name = enclosing_name(r->body, p, &length);
            const struct rule *rule = *name == '=' ? result : find_rule(r, name, length);
            uint8_t stage = rule->reads;
            if (is_predicate(reg.first))
                stage = rule->predicates;
            else if (r->unit == UNIT_VECTOR && !is_vector_register(reg.first))
                stage = rule->scalars;
            add_read(r, reg, stage, rule->cause);
        }
        p = reg.after;
    }
}

/* Whether the target is a source as well. */
static bool updates_target(const struct reading *r) {
    return (r->forms & FORM_ACCUMULATES) != 0 || has(r, "insert(") || has(r, "vasrinto(");
}

/* Everything that is not a memory instruction. */
static void read_operation(struct reading *r) {
    const struct rule *rule = result_rule(r);
    const char *stop = r->value == r->body ? r->body : r->value - 1;
    for (const char *p = r->body; p < stop;) {
        struct named_register reg = register_at(r->text, p);
        if (updates_target(r))
            add_read(r, reg, rule->accumulates, rule->cause);
        add_write(r, reg, rule->writes);
        p = reg.after;
    }
    if (strncmp(r->body, "vdeal(", 6) == 0 || strncmp(r->body, "vshuff(", 7) == 0) {
        struct named_register x = register_at(r->text, strchr(r->body, '(') + 1);
        add_write(r, x, rule->writes); /* both vectors are exchanged in place */
        add_write(r, register_at(r->text, x.after + 1), rule->writes);
    }
    if (strncmp(r->body, "call", 4) == 0)
        add_write(r, (struct named_register){REGISTER_R + 31, 1, false, NULL}, rule->writes);
    read_sources(r, rule);
}

static void read_condition(struct reading *r) {
    r->body = r->text;
    if (strncmp(r->text, "if (", 4) != 0)
        return;
    int depth = 0;
    const char *p = r->text + 3;
    do
        depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
    while (++p < r->end && depth > 0);
    r->body = p;
    while (r->body < r->end && *r->body == ' ')
        r->body++;
}

static void read_condition_registers(struct reading *r) {
    const enum unit unit = r->unit;
    for (const char *p = r->text; p < r->body;) {
        struct named_register reg = register_at(r->text, p);
        r->unit = is_vector_register(reg.first) ? UNIT_VECTOR : UNIT_SCALAR;
        const struct rule *rule = find_rule(r, "if", 2);
        add_read(r, reg, is_predicate(reg.first) ? rule->predicates : rule->reads, rule->cause);
        p = reg.after;
    }
    r->unit = unit;
}

static bool names_vectors(const struct reading *r) {
    for (const char *p = r->text; p < r->end; p++) {
        struct named_register reg = register_at(r->text, p);
        if ((reg.count > 0 && is_vector_register(reg.first)) || *p == 'O')
            return true;
    }
    return has(r, "vtmp");
}

static bool add_instruction(struct packet *packet, const struct class_table *table,
                            const char *text, const char *end) {
    struct reading r = {packet, table, text, text, text, end, UNIT_SCALAR, 0, true};
    read_condition(&r);
    r.unit = names_vectors(&r) ? UNIT_VECTOR : UNIT_SCALAR;
    packet->traits |= r.unit == UNIT_VECTOR ? TRAIT_VECTOR : 0;
    packet->traits |= instruction_traits(text, end, &packet->prefetch);
    const char *equals = NULL;
    for (const char *p = r.body; p < end && equals == NULL; p++)
        if (*p == '=' && (p[1] == ' ' || p[1] == '+' || p[1] == '-') && p > r.body)
            equals = p;
    r.value = equals == NULL ? r.body : equals + 1;
    r.forms = forms_of(&r, equals);
    if (r.body > text)
        read_condition_registers(&r);
    const char *access = memory_access(r.body, end);
    if (access != NULL)
        read_store(&r, access);
    else if ((access = memory_access(r.value, end)) != NULL)
        read_load(&r, access);
    else
        read_operation(&r);
    return r.fits;
}

static uint8_t without(struct operand *operands, uint8_t count, uint8_t reg) {
    uint8_t kept = 0;
    for (uint8_t i = 0; i < count; i++)
        if (operands[i].reg != reg)
            operands[kept++] = operands[i];
    return kept;
}

/* What V0.cur and V0.tmp load, the rest of the packet has at once; .tmp is for nobody else. */
static void hand_over_load(struct packet *packet, const char *text) {
    const char *current = strstr(text, ".cur = "), *temporary = strstr(text, ".tmp = ");
    const char *name = current != NULL ? current : temporary;
    while (name != NULL && name > text && *name != 'V')
        name--;
    if (name == NULL)
        return;
    uint8_t loaded = register_at(text, name).first;
    packet->reads = without(packet->read, packet->reads, loaded);
    if (temporary != NULL)
        packet->writes = without(packet->write, packet->writes, loaded);
}

/* Each line ends in the instruction, after a tab; braces and loop ends are not part of it. */
bool packet_parse(struct packet *packet, const struct class_table *table, const char *text) {
    const char *whole = text;
    bool fits = true;
    if (strstr(text, ":endloop") != NULL)
        packet->traits |= TRAIT_LOOP_END;
    while (*text != 0) {
        const char *end = strchr(text, '\n');
        if (end == NULL)
            end = text + strlen(text);
        const char *next = *end == 0 ? end : end + 1;
        for (const char *p = text; p < end; p++)
            if (*p == '\t')
                text = p + 1;
        while (text < end) {
            while (text < end && (*text == '{' || *text == ' ' || *text == ';'))
                text++;
            const char *stop = text;
            while (stop < end && *stop != ';' && *stop != '}')
                stop++;
            const char *last = stop;
            while (last > text && last[-1] == ' ')
                last--;
            if (last > text)
                fits &= add_instruction(packet, table, text, last);
            text = stop < end && *stop == ';' ? stop + 1 : end;
        }
        text = next;
    }
    hand_over_load(packet, whole);
    return fits;
}

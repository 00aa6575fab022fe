#include "waits.h"

#include <stdbool.h>
#include <string.h>

#include "account.h"

/* A group under way, for one of the windows. Groups end with the stretch they are counted in. */
struct group {
    uint64_t began;
    uint32_t lead; /* the shortest in it, as an index */
    const struct events *counted_in;
};

static const struct memory_system *system_;
static struct group groups[EVENT_WINDOWS];

void waits_open(const struct memory_system *system) { system_ = system; }

void waits_begin(void) { memset(groups, 0, sizeof groups); }

static enum event event_of(uint32_t window, uint32_t lead) {
    return (enum event)(EVENT_WAITS + window * EVENT_LEADS + lead);
}

static uint32_t index_of(uint64_t lead) {
    uint32_t index = 0;
    while (index + 1 < EVENT_LEADS && lead >= system_->leads[index + 1])
        index++;
    return index;
}

void wait_for_memory(uint64_t time, uint64_t lead) {
    uint32_t index = index_of(lead);
    if (index == EVENT_LEADS - 1) /* arrived */
        return;
    for (uint32_t w = 0; w < EVENT_WINDOWS; w++) {
        struct group *group = &groups[w];
        bool joins = group->counted_in == account.events &&
                     time - group->began <= system_->windows[w];
        if (joins && index >= group->lead)
            continue;
        if (joins) { /* waits longer than the group did so far */
            account.events->count[event_of(w, group->lead)]--;
            account.extra -= account.costs->of_event[event_of(w, group->lead)];
            account.waits -= account.costs->of_event[event_of(w, group->lead)];
            group->lead = index;
        } else {
            *group = (struct group){time, index, account.events};
        }
        charge(event_of(w, index), 1);
        account.waits += account.costs->of_event[event_of(w, index)];
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/plan.h"

#include <stdlib.h>

/* The one that differs, and two that may be the same again. */
#define PASSES_WRITTEN_ON 3

void weir__plan_turn(struct weir__plan *plan, uint64_t memory_calls) {
    const struct weir__pass old = plan->before;
    const bool is_needed = !plan->marked || memory_calls > plan->memory_calls;
    plan->repeated = plan->repeats && plan->now.count == old.count;
    plan->before = plan->now;
    plan->now = old;
    plan->now.count = 0;
    if (!plan->records) plan->before.count = 0;
    plan->marked = true;
    plan->memory_calls = memory_calls;
    if (plan->repeated)
        plan->written_on = PASSES_WRITTEN_ON;
    else if (plan->written_on > 0)
        plan->written_on--;
    plan->records = is_needed || plan->written_on > 0;
    plan->repeats = plan->records && plan->before.count > 0;
}

/* The next request in the pass before, if it is the same. */
static const struct weir__planned *like(const struct weir__plan *plan, size_t bytes, uint32_t slot) {
    if (!plan->repeats || plan->now.count >= plan->before.count) return NULL;
    const struct weir__planned *planned = &plan->before.requests[plan->now.count];
    return planned->bytes == bytes && planned->slot == slot ? planned : NULL;
}

const struct weir__planned *weir__plan_next(const struct weir__plan *plan, size_t bytes, uint32_t slot) {
    return plan->repeated ? like(plan, bytes, slot) : NULL;
}

uintptr_t weir__plan_address(const struct weir__plan *plan, const struct weir__planned *planned, int choice) {
    return (choice == 0) == plan->by_turns ? planned->earlier : planned->address;
}

static bool has_room(struct weir__pass *pass) {
    if (pass->count < pass->room) return true;
    const size_t room = pass->room == 0 ? 1024 : pass->room * 2;
    if (room > WEIR__MOST_PLANNED) return false;
    struct weir__planned *requests = realloc(pass->requests, room * sizeof *requests);
    if (requests == NULL) return false;
    pass->requests = requests;
    pass->room = room;
    return true;
}

void weir__plan_add(struct weir__plan *plan, size_t bytes, uint32_t slot, uintptr_t address) {
    if (!plan->records) return;
    const struct weir__planned *planned = like(plan, bytes, slot);
    plan->records = has_room(&plan->now);
    plan->repeats = planned != NULL && plan->records;
    if (!plan->records) return;
    if (plan->repeats && address != weir__plan_address(plan, planned, 0) &&
        address == weir__plan_address(plan, planned, 1))
        plan->by_turns = !plan->by_turns;
    plan->now.requests[plan->now.count++] = (struct weir__planned){
        .bytes = bytes, .address = address, .earlier = planned != NULL ? planned->address : 0, .slot = slot};
}

void weir__plan_clear(struct weir__plan *plan) {
    free(plan->before.requests);
    free(plan->now.requests);
    *plan = (struct weir__plan){0};
}

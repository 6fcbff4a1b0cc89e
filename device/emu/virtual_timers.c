/* SPDX-License-Identifier: Apache-2.0 */
/* Chance, and what happens at a time that is known. */
#include <stdlib.h>

#include "device/emu/settings.h"
#include "device/emu/virtual.h"

/* ---- chance ----------------------------------------------------------------------------------------------------- */

static uint64_t chance;

void emu_chance_seed(uint64_t seed) { chance = seed; }

/* splitmix64 (Steele, Lea and Flood 2014) */
uint64_t emu_chance_draw(void) {
    uint64_t z = chance += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double emu_chance_jitter(double ns) {
    const double jitter = emu_settings()->jitter;
    if (jitter <= 0 || ns <= 0) return ns;
    return ns * (1 + jitter * (2 * ((double)(emu_chance_draw() >> 11) * 0x1p-53) - 1));
}

/* ---- timers ----------------------------------------------------------------------------------------------------- */

static struct emu_timer *timers; /* a heap by (ns, tie) */
static size_t timer_count, timer_room;
static uint64_t timers_set;

static bool earlier(const struct emu_timer *a, const struct emu_timer *b) {
    return a->ns != b->ns ? a->ns < b->ns : a->tie < b->tie;
}

static void swap_timers(size_t a, size_t b) {
    const struct emu_timer kept = timers[a];
    timers[a] = timers[b];
    timers[b] = kept;
}

bool emu_timers_reserve(size_t more) {
    if (timer_count + more <= timer_room) return true;
    const size_t room = 2 * timer_room + more + 64;
    struct emu_timer *grown = realloc(timers, room * sizeof *grown);
    if (grown == NULL) return false;
    timers = grown;
    timer_room = room;
    return true;
}

void emu_timers_set(uint64_t ns, struct emu_line *line, struct weir_emu_gate *gate) {
    if (!emu_timers_reserve(1)) abort(); /* a few bytes: nothing else would go on either */
    timers_set++;
    size_t at = timer_count++;
    timers[at] = (struct emu_timer){ns, emu_settings()->seed != 0 ? emu_chance_draw() : timers_set, line, gate};
    for (; at > 0 && earlier(&timers[at], &timers[(at - 1) / 2]); at = (at - 1) / 2) swap_timers(at, (at - 1) / 2);
}

struct emu_timer emu_timers_take(void) {
    const struct emu_timer first = timers[0];
    timers[0] = timers[--timer_count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < timer_count; child++)
            if (earlier(&timers[child], &timers[least])) least = child;
        if (least == at) return first;
        swap_timers(at, least);
        at = least;
    }
}

uint64_t emu_timers_next_ns(void) { return timer_count > 0 ? timers[0].ns : EMU_NEVER; }

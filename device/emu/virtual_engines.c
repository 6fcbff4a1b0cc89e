/* SPDX-License-Identifier: Apache-2.0 */
/* Engines: a compute engine is shared equally by the operations on it; a copy engine does one copy after the other, slower
 * while the other direction is busy too. What is left of an operation is counted as if it were alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/settings.h"
#include "device/emu/virtual.h"

struct engine {
    struct emu_line **lines; /* on it; a copy engine works on the first */
    size_t count, room;
    uint64_t updated_ns, next_ns;
};

static struct engine engines[EMU_MOST_DEVICES][EMU_ENGINES];
static struct engine *busy[EMU_MOST_DEVICES * EMU_ENGINES];
static size_t busy_count;

static enum emu_engine kind_of(const struct engine *engine) {
    return (enum emu_engine)((size_t)(engine - engines[0]) % EMU_ENGINES);
}

static struct engine *other_way(struct engine *engine) {
    if (kind_of(engine) == EMU_ENGINE_TO_DEVICE) return engine + 1;
    return kind_of(engine) == EMU_ENGINE_TO_HOST ? engine - 1 : NULL;
}

static double together(enum emu_engine kind) {
    const struct emu_profile *profile = &emu_settings()->profile;
    return kind == EMU_ENGINE_TO_DEVICE ? profile->to_device_together / profile->to_device_rate
                                        : profile->to_host_together / profile->to_host_rate;
}

static double speed(struct engine *engine) {
    const enum emu_engine kind = kind_of(engine);
    if (kind == EMU_ENGINE_COMPUTE) return 1.0 / (double)engine->count;
    return other_way(engine)->count > 0 ? together(kind) : 1.0;
}

static size_t worked_on(const struct engine *engine) {
    return kind_of(engine) == EMU_ENGINE_COMPUTE || engine->count == 0 ? engine->count : 1;
}

/* Brings what is left up to now, at the speed that was. */
static void bring_up(struct engine *engine, uint64_t now) {
    const double done = engine->count > 0 ? (double)(now - engine->updated_ns) * speed(engine) : 0;
    for (size_t i = 0; i < worked_on(engine); i++) engine->lines[i]->left_ns -= done;
    engine->updated_ns = now;
}

static void plan(struct engine *engine, uint64_t now) {
    double least = INFINITY;
    for (size_t i = 0; i < worked_on(engine); i++)
        if (engine->lines[i]->left_ns < least) least = engine->lines[i]->left_ns;
    engine->next_ns =
        engine->count == 0 ? EMU_NEVER : emu_later(now, emu_whole_ns(ceil(fmax(least, 0) / speed(engine))));
}

static void note_busy(struct engine *engine) { busy[busy_count++] = engine; }

static void note_idle(const struct engine *engine) {
    size_t at = 0;
    while (busy[at] != engine) at++;
    busy[at] = busy[--busy_count];
}

/* A change on one copy engine changes the speed of the other direction's. */
static void begin_change(struct engine *engine, uint64_t now) {
    bring_up(engine, now);
    if (other_way(engine) != NULL) bring_up(other_way(engine), now);
}

static void end_change(struct engine *engine, uint64_t now) {
    plan(engine, now);
    if (other_way(engine) != NULL) plan(other_way(engine), now);
}

bool emu_engines_add(CUdevice device, enum emu_engine kind, struct emu_line *line, uint64_t now) {
    struct engine *engine = &engines[device][kind];
    if (engine->count == engine->room) {
        const size_t room = 2 * engine->room + 8;
        struct emu_line **grown = realloc(engine->lines, room * sizeof(struct emu_line *));
        if (grown == NULL) return false;
        engine->lines = grown;
        engine->room = room;
    }
    begin_change(engine, now);
    if (engine->count == 0) note_busy(engine);
    engine->lines[engine->count++] = line;
    end_change(engine, now);
    return true;
}

static struct engine *next_engine(void) {
    struct engine *next = NULL;
    for (size_t i = 0; i < busy_count; i++)
        if (next == NULL || busy[i]->next_ns < next->next_ns) next = busy[i];
    return next;
}

uint64_t emu_engines_next_ns(void) {
    const struct engine *next = next_engine();
    return next != NULL ? next->next_ns : EMU_NEVER;
}

struct emu_line *emu_engines_take(uint64_t now) {
    struct engine *engine = next_engine();
    begin_change(engine, now);
    size_t done = 0;
    for (size_t i = 1; i < worked_on(engine); i++)
        if (engine->lines[i]->left_ns < engine->lines[done]->left_ns) done = i;
    struct emu_line *line = engine->lines[done];
    memmove(&engine->lines[done], &engine->lines[done + 1], (engine->count - done - 1) * sizeof(struct emu_line *));
    if (--engine->count == 0) note_idle(engine);
    end_change(engine, now);
    return line;
}

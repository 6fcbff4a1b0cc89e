/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual clock: discrete events, simulated by whichever host thread has the turn.
 *
 * Words. thread: a host thread that takes part; it has a time of its own, which its calls advance. turn: the one thread
 * that runs; the others stand in the driver. line: a queue as the simulation sees it. engine: what operations share.
 *
 *     now <= time of the thread that has the turn;  it gets the turn because no ready thread has an earlier time
 *     a line is idle (its head may be looked at), waiting (for a point or a gate), timed, or running on an engine
 *     the next event is the earliest of the timers and of the engines' next completions
 *
 * A compute engine is shared equally by the operations on it; a copy engine does one copy after the other, slower while
 * the other direction is busy too. The seed moves each duration a little and decides ties. */
#include <assert.h>
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/clock.h"
#include "device/emu/machine.h"
#include "device/emu/settings.h"
#include "device/error.h"

#define NEVER UINT64_MAX

enum line_state { LINE_IDLE, LINE_WAITING, LINE_TIMED, LINE_RUNNING };

struct thread;

/* Something that goes on when a point passes or a gate opens: a line or a thread. */
struct emu_waiter {
    struct emu_waiter *next;
    uint64_t position; /* of the queue in whose list it is */
    struct emu_line *line;
    struct thread *thread;
};

struct emu_line {
    struct emu_queue *queue;
    enum line_state state;
    size_t points_passed;        /* of the head */
    bool delayed;                /* the head's delay is over */
    bool done;                   /* a timer marks the head's end, not its start */
    double left_ns;              /* of the head, on its engine: as if alone */
    struct emu_waiter self;      /* this line, waiting */
    struct emu_waiter *waiters;  /* for positions of this queue */
    struct emu_line *next_kicked;
    bool kicked;
    uint64_t ready_ns[EMU_QUEUE_ROOM]; /* before this an operation can't start: its launch takes that long */
};

/* ---- chance ----------------------------------------------------------------------------------------------------- */

static uint64_t chance;

/* splitmix64 (Steele, Lea and Flood 2014) */
static uint64_t draw(void) {
    uint64_t z = chance += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double jittered(double ns) {
    const double jitter = emu_settings()->jitter;
    if (jitter <= 0 || ns <= 0) return ns;
    return ns * (1 + jitter * (2 * ((double)(draw() >> 11) * 0x1p-53) - 1));
}

/* ---- timers ----------------------------------------------------------------------------------------------------- */

struct timer {
    uint64_t ns, tie;
    struct emu_line *line;
    struct weir_emu_gate *gate;
};

static uint64_t now;
static struct timer *timers; /* a heap by (ns, tie) */
static size_t timer_count, timer_room;
static uint64_t timers_set;

static bool earlier(const struct timer *a, const struct timer *b) {
    return a->ns != b->ns ? a->ns < b->ns : a->tie < b->tie;
}

static void swap_timers(size_t a, size_t b) {
    const struct timer kept = timers[a];
    timers[a] = timers[b];
    timers[b] = kept;
}

/* Room for timers is made when lines and gates come (reserve_timers), so that setting one can't fail. */
static bool reserve_timers(size_t more) {
    if (timer_count + more <= timer_room) return true;
    const size_t room = 2 * timer_room + more + 64;
    struct timer *grown = realloc(timers, room * sizeof *grown);
    if (grown == NULL) return false;
    timers = grown;
    timer_room = room;
    return true;
}

static void set_timer(uint64_t ns, struct emu_line *line, struct weir_emu_gate *gate) {
    if (!reserve_timers(1)) abort(); /* a few bytes: nothing else would go on either */
    timers_set++;
    size_t at = timer_count++;
    timers[at] = (struct timer){ns, emu_settings()->seed != 0 ? draw() : timers_set, line, gate};
    for (; at > 0 && earlier(&timers[at], &timers[(at - 1) / 2]); at = (at - 1) / 2) swap_timers(at, (at - 1) / 2);
}

static struct timer take_timer(void) {
    const struct timer first = timers[0];
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

/* ---- engines ---------------------------------------------------------------------------------------------------- */

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
static void bring_up(struct engine *engine) {
    const double done = engine->count > 0 ? (double)(now - engine->updated_ns) * speed(engine) : 0;
    for (size_t i = 0; i < worked_on(engine); i++) engine->lines[i]->left_ns -= done;
    engine->updated_ns = now;
}

static void plan(struct engine *engine) {
    double least = INFINITY;
    for (size_t i = 0; i < worked_on(engine); i++)
        if (engine->lines[i]->left_ns < least) least = engine->lines[i]->left_ns;
    engine->next_ns = engine->count == 0 ? NEVER : now + (uint64_t)ceil(fmax(least, 0) / speed(engine));
}

static void note_busy(struct engine *engine) { busy[busy_count++] = engine; }

static void note_idle(const struct engine *engine) {
    size_t at = 0;
    while (busy[at] != engine) at++;
    busy[at] = busy[--busy_count];
}

/* A change on one copy engine changes the speed of the other direction's. */
static void begin_change(struct engine *engine) {
    bring_up(engine);
    if (other_way(engine) != NULL) bring_up(other_way(engine));
}

static void end_change(struct engine *engine) {
    plan(engine);
    if (other_way(engine) != NULL) plan(other_way(engine));
}

static bool add_to_engine(struct engine *engine, struct emu_line *line) {
    if (engine->count == engine->room) {
        const size_t room = 2 * engine->room + 8;
        struct emu_line **grown = realloc(engine->lines, room * sizeof(struct emu_line *));
        if (grown == NULL) return false;
        engine->lines = grown;
        engine->room = room;
    }
    begin_change(engine);
    if (engine->count == 0) note_busy(engine);
    engine->lines[engine->count++] = line;
    end_change(engine);
    return true;
}

/* Takes the line that is done off the engine: the first whose time has come. */
static struct emu_line *take_from_engine(struct engine *engine) {
    begin_change(engine);
    size_t done = 0;
    for (size_t i = 1; i < worked_on(engine); i++)
        if (engine->lines[i]->left_ns < engine->lines[done]->left_ns) done = i;
    struct emu_line *line = engine->lines[done];
    memmove(&engine->lines[done], &engine->lines[done + 1],
            (engine->count - done - 1) * sizeof(struct emu_line *));
    if (--engine->count == 0) note_idle(engine);
    end_change(engine);
    return line;
}

static struct engine *next_engine(void) {
    struct engine *next = NULL;
    for (size_t i = 0; i < busy_count; i++)
        if (next == NULL || busy[i]->next_ns < next->next_ns) next = busy[i];
    return next;
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

enum thread_state { THREAD_COMING, THREAD_READY, THREAD_WAITING };

struct thread {
    struct thread *next;
    char name[32];
    enum thread_state state;
    uint64_t ns;  /* its own time */
    uint64_t tie; /* who goes first at one time */
    struct emu_waiter self, **list; /* while it waits: itself, and the list that it stands in */
    const char *waits_for;
    CUresult result;
    sem_t turns; /* posted when it gets the turn; it looks again whether it has it */
};

static struct thread *threads, *turn;
static struct thread *spare; /* ended; kept, since who gave it the turn may still touch it */
static _Thread_local struct thread *me;
static unsigned coming;

static uint64_t hash(const char *name, uint64_t seed) {
    uint64_t value = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u; /* FNV-1a */
    for (; *name != '\0'; name++) value = (value ^ (unsigned char)*name) * 0x100000001b3u;
    return value;
}

/* With a seed ties are drawn anew each time a thread becomes ready. */
static void make_ready(struct thread *thread, uint64_t ns) {
    thread->state = THREAD_READY;
    if (ns > thread->ns) thread->ns = ns;
    if (emu_settings()->seed != 0) thread->tie = draw();
}

static struct thread *next_thread(void) {
    struct thread *next = NULL;
    for (struct thread *each = threads; each != NULL; each = each->next) {
        if (each->state != THREAD_READY) continue;
        if (next == NULL || each->ns < next->ns || (each->ns == next->ns && each->tie < next->tie)) next = each;
    }
    return next;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static struct emu_line *kicked, **kicked_end = &kicked;

static void kick(struct emu_line *line) {
    if (line->kicked) return;
    line->kicked = true;
    line->next_kicked = NULL;
    *kicked_end = line;
    kicked_end = &line->next_kicked;
}

static void wake(struct emu_waiter *waiter) {
    if (waiter->thread != NULL) {
        make_ready(waiter->thread, now + (uint64_t)emu_settings()->profile.wake_ns);
        return;
    }
    waiter->line->state = LINE_IDLE;
    kick(waiter->line);
}

static void wake_passed(struct emu_line *line) {
    for (struct emu_waiter **link = &line->waiters; *link != NULL;) {
        struct emu_waiter *waiter = *link;
        if (waiter->position > line->queue->completed) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        wake(waiter);
    }
}

static void wait_in(struct emu_waiter **list, struct emu_waiter *waiter, uint64_t position) {
    while (*list != NULL) list = &(*list)->next;
    waiter->next = NULL;
    waiter->position = position;
    *list = waiter;
}

/* The head has happened. */
static void finish(struct emu_line *line) {
    struct emu_operation *operation = emu_queue_head(line->queue);
    line->state = LINE_RUNNING;
    if (emu_operation_runs(operation)) {
        emu_unlock();
        emu_operation_run(operation);
        emu_lock();
    }
    emu_operation_settle(line->queue, operation);
    line->state = LINE_IDLE;
    line->points_passed = 0;
    line->delayed = line->done = false;
    if (line->waiters != NULL) wake_passed(line);
}

static const struct emu_point *point_of(const struct emu_operation *operation, size_t index) {
    enum { FIXED = sizeof operation->after / sizeof *operation->after };
    if (index < FIXED) return &operation->after[index];
    return index - FIXED < operation->after_many_count ? &operation->after_many[index - FIXED] : NULL;
}

/* False: the line now waits for a point. */
static bool points_passed(struct emu_line *line, const struct emu_operation *operation) {
    const struct emu_point *point;
    for (; (point = point_of(operation, line->points_passed)) != NULL; line->points_passed++) {
        if (emu_point_passed(*point)) continue;
        line->state = LINE_WAITING;
        wait_in(&point->queue->line->waiters, &line->self, point->position);
        return false;
    }
    return true;
}

static void time_line(struct emu_line *line, uint64_t ns, bool done) {
    line->state = LINE_TIMED;
    line->done = done;
    set_timer(ns, line, NULL);
}

static void start_on_engine(struct emu_line *line, const struct emu_operation *operation) {
    struct engine *engine = &engines[line->queue->context->device][operation->engine];
    line->left_ns = jittered(operation->alone_ns);
    line->state = LINE_RUNNING;
    if (!add_to_engine(engine, line)) abort(); /* a few bytes: nothing else would go on either */
}

/* Begins the head. True: it is over already. */
static bool start(struct emu_line *line, struct emu_operation *operation) {
    if (operation->kind == EMU_GATE && !operation->gate->open) {
        line->state = LINE_WAITING;
        wait_in(&operation->gate->waiters, &line->self, 0);
        return false;
    }
    if (operation->engine != EMU_ENGINE_NONE) {
        start_on_engine(line, operation);
        return false;
    }
    const double ns = jittered(operation->alone_ns);
    if (ns <= 0) return true;
    time_line(line, now + (uint64_t)ceil(ns), true);
    return false;
}

/* Goes as far as the line can go now. */
static void step(struct emu_line *line) {
    struct emu_queue *queue = line->queue;
    while (line->state == LINE_IDLE && queue->completed < queue->pushed) {
        struct emu_operation *operation = emu_queue_head(queue);
        const uint64_t ready_ns = line->ready_ns[(queue->completed + 1) % EMU_QUEUE_ROOM];
        if (!points_passed(line, operation)) return;
        if (ready_ns > now) {
            time_line(line, ready_ns, false);
        } else if (queue->delay_ns > 0 && !line->delayed) {
            line->delayed = true;
            time_line(line, now + queue->delay_ns, false);
        } else if (start(line, operation)) {
            finish(line);
        }
    }
}

static void run_kicked(void) {
    while (kicked != NULL) {
        struct emu_line *line = kicked;
        kicked = line->next_kicked;
        if (kicked == NULL) kicked_end = &kicked;
        line->kicked = false;
        step(line);
    }
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static uint64_t next_event_ns(void) {
    const struct engine *engine = next_engine();
    const uint64_t timer_ns = timer_count > 0 ? timers[0].ns : NEVER;
    return engine != NULL && engine->next_ns < timer_ns ? engine->next_ns : timer_ns;
}

static void ring(struct timer timer) {
    if (timer.gate != NULL) {
        emu_gate_opened(timer.gate);
        return;
    }
    timer.line->state = LINE_IDLE;
    if (timer.line->done) finish(timer.line);
    kick(timer.line);
}

static void do_next_event(void) {
    struct engine *engine = next_engine();
    if (timer_count > 0 && (engine == NULL || timers[0].ns <= engine->next_ns)) {
        if (timers[0].ns > now) now = timers[0].ns;
        ring(take_timer());
    } else {
        if (engine->next_ns > now) now = engine->next_ns;
        struct emu_line *line = take_from_engine(engine);
        finish(line);
        kick(line);
    }
    run_kicked();
}

/* All that happens up to a time. */
static void advance(uint64_t ns) {
    run_kicked();
    while (next_event_ns() <= ns) do_next_event();
    if (ns > now) now = ns;
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */

static void say_stuck(void) {
    for (const struct thread *each = threads; each != NULL; each = each->next)
        if (each->state == THREAD_WAITING)
            weir__log(WEIR__LOG_ERROR,
                      "emulated driver: nothing can happen any more: thread \"%s\" waits for %s, and no thread, timer or "
                      "operation is left that could end that",
                      each->name, each->waits_for);
}

static void remove_waiter(struct emu_waiter **list, const struct emu_waiter *waiter) {
    for (; *list != NULL; list = &(*list)->next)
        if (*list == waiter) {
            *list = waiter->next;
            return;
        }
}

/* Nothing is left that could end these waits: they fail. */
static void fail_waits(void) {
    say_stuck();
    for (struct thread *each = threads; each != NULL; each = each->next) {
        if (each->state != THREAD_WAITING) continue;
        remove_waiter(each->list, &each->self);
        each->result = CUDA_ERROR_LAUNCH_TIMEOUT;
        make_ready(each, now);
    }
}

static bool any_waits(void) {
    for (const struct thread *each = threads; each != NULL; each = each->next)
        if (each->state == THREAD_WAITING) return true;
    return false;
}

/* Gives the turn to the thread whose time is earliest, after all events before it. Called by the thread that has it. */
static void dispatch(void) {
    run_kicked();
    for (;;) {
        struct thread *next = next_thread();
        const uint64_t event_ns = next_event_ns();
        if (next != NULL && next->ns <= event_ns) {
            if (next->ns > now) now = next->ns;
            turn = next;
            return;
        }
        if (event_ns != NEVER) {
            do_next_event();
        } else if (coming > 0 || !any_waits()) {
            turn = NULL; /* whoever begins next takes it */
            return;
        } else {
            fail_waits();
        }
    }
}

/* Waits for the turn. The lock is let go first, so that the thread that gets the turn does not wait for it. */
static void await_turn(struct thread *next) {
    while (turn != me) {
        emu_unlock();
        if (next != NULL) sem_post(&next->turns);
        next = NULL;
        while (sem_wait(&me->turns) != 0) continue; /* interrupted */
        emu_lock();
    }
}

static void hand_over(void) {
    dispatch();
    await_turn(turn);
}

static CUresult wait_until_woken(struct emu_waiter **list, uint64_t position, const char *what) {
    me->state = THREAD_WAITING;
    me->waits_for = what;
    me->result = CUDA_SUCCESS;
    me->list = list;
    wait_in(list, &me->self, position);
    hand_over();
    return me->result;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void) { return now; }
static uint64_t host_now_ns(void) { return me != NULL && !emu_in_host_function && me->ns > now ? me->ns : now; }

static bool admits(void) {
    static bool said;
    if (me == NULL && !said) {
        said = true;
        weir__log(WEIR__LOG_ERROR, "emulated driver: under clock:virtual a thread takes part by weirEmuThreadBegin "
                                   "before it calls the driver (docs/emulator.md)");
    }
    return me != NULL;
}

static bool prepare(struct emu_queue *queue) {
    if (queue->line != NULL) return true;
    struct emu_line *line = calloc(1, sizeof *line);
    if (line == NULL || !reserve_timers(1)) {
        free(line);
        return false;
    }
    line->queue = queue;
    line->self.line = line;
    queue->line = line;
    return true;
}

static void pushed(struct emu_queue *queue) {
    struct emu_line *line = queue->line;
    line->ready_ns[queue->pushed % EMU_QUEUE_ROOM] = me->ns + (uint64_t)emu_settings()->profile.launch_ns;
    if (line->state == LINE_IDLE) {
        kick(line);
        run_kicked();
    }
}

static CUresult wait_point(struct emu_point point) {
    if (emu_point_passed(point)) return CUDA_SUCCESS;
    emu_gates_host_waits();
    return wait_until_woken(&point.queue->line->waiters, point.position, "work on a stream");
}

static CUresult wait_room(struct emu_queue *queue) {
    emu_gates_host_waits();
    return wait_until_woken(&queue->line->waiters, queue->completed + 1, "room in a full launch queue");
}

static CUresult wait_gate(struct weir_emu_gate *gate) {
    return gate->open ? CUDA_SUCCESS : wait_until_woken(&gate->waiters, 0, "a gate");
}

static void open_gate(struct weir_emu_gate *gate, uint64_t delay_ns) {
    set_timer(host_now_ns() + delay_ns, NULL, gate);
}

static void gate_opened(struct weir_emu_gate *gate) {
    while (gate->waiters != NULL) {
        struct emu_waiter *waiter = gate->waiters;
        gate->waiters = waiter->next;
        wake(waiter);
    }
}

static void charge(double ns, bool may_switch) {
    if (me == NULL) return;
    me->ns += (uint64_t)jittered(ns);
    if (may_switch && threads->next != NULL)
        hand_over();
    else
        advance(me->ns);
}

static void pause_ns(uint64_t ns) {
    emu_gates_host_waits();
    me->ns += ns;
    hand_over();
}

static bool thread_begin(const char *name, unsigned together) {
    if (me != NULL) return true;
    struct thread *made = spare != NULL ? spare : calloc(1, sizeof *made);
    if (made == NULL) return false;
    if (made == spare)
        spare = made->next;
    else
        sem_init(&made->turns, 0, 0);
    memset(made->name, 0, sizeof made->name);
    strncpy(made->name, name, sizeof made->name - 1);
    made->state = THREAD_COMING;
    made->ns = 0;
    made->self.thread = made;
    made->tie = hash(name, emu_settings()->seed);
    if (threads == NULL && now == 0) chance = emu_settings()->seed;
    struct thread **link = &threads; /* by name: the order in which threads come is not the clock's */
    while (*link != NULL && strcmp((*link)->name, made->name) < 0) link = &(*link)->next;
    made->next = *link;
    *link = me = made;
    if (++coming < together) {
        await_turn(NULL);
        return true;
    }
    for (struct thread *each = threads; each != NULL; each = each->next)
        if (each->state == THREAD_COMING) make_ready(each, now);
    coming = 0;
    if (turn == NULL)
        hand_over();
    else
        await_turn(NULL);
    return true;
}

static void thread_end(void) {
    if (me == NULL) return;
    struct thread **link = &threads;
    while (*link != me) link = &(*link)->next;
    *link = me->next;
    me->next = spare;
    spare = me;
    me = NULL;
    dispatch();
    if (turn != NULL) sem_post(&turn->turns);
}

const struct emu_clock emu_clock_virtual = {.now_ns = now_ns,
                                            .host_now_ns = host_now_ns,
                                            .admits = admits,
                                            .prepare = prepare,
                                            .pushed = pushed,
                                            .wait = wait_point,
                                            .wait_room = wait_room,
                                            .wait_gate = wait_gate,
                                            .open_gate = open_gate,
                                            .gate_opened = gate_opened,
                                            .charge = charge,
                                            .pause = pause_ns,
                                            .thread_begin = thread_begin,
                                            .thread_end = thread_end};

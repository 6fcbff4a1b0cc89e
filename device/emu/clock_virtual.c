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
 * The seed moves each duration a little and decides ties. */
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/clock.h"
#include "device/emu/machine.h"
#include "device/emu/settings.h"
#include "device/emu/virtual.h"
#include "device/error.h"

static uint64_t now;

/* ---- threads ---------------------------------------------------------------------------------------------------- */

enum thread_state { THREAD_COMING, THREAD_READY, THREAD_WAITING };

struct thread {
    struct thread *next;
    char name[32];
    enum thread_state state;
    uint64_t ns;                    /* its own time */
    uint64_t tie;                   /* who goes first at one time */
    struct emu_waiter self, **list; /* while it waits: itself, and the list that it stands in */
    const char *waits_for;
    CUresult result;
    unsigned looks; /* in a row that found nothing ready */
    uint64_t looked_ns;
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
    if (emu_settings()->seed != 0) thread->tie = emu_chance_draw();
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
        make_ready(waiter->thread, emu_later(now, emu_whole_ns(emu_settings()->profile.wake_ns)));
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
    if (emu_operation_runs(line->queue, operation)) {
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
    emu_timers_set(ns, line, NULL);
}

static void start_on_engine(struct emu_line *line, const struct emu_operation *operation) {
    line->left_ns = emu_chance_jitter(operation->alone_ns);
    line->state = LINE_RUNNING;
    if (!emu_engines_add(line->queue->context->device, operation->engine, line, now))
        abort(); /* a few bytes: nothing else would go on either */
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
    const double ns = emu_chance_jitter(operation->alone_ns);
    if (ns <= 0) return true;
    time_line(line, emu_later(now, emu_whole_ns(ceil(ns))), true);
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
            time_line(line, emu_later(now, queue->delay_ns), false);
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
    const uint64_t timer_ns = emu_timers_next_ns(), engine_ns = emu_engines_next_ns();
    return timer_ns < engine_ns ? timer_ns : engine_ns;
}

static void ring(struct emu_timer timer) {
    if (timer.gate != NULL) {
        emu_gate_opened(timer.gate);
        return;
    }
    timer.line->state = LINE_IDLE;
    if (timer.line->done) finish(timer.line);
    kick(timer.line);
}

static void do_next_event(void) {
    const bool timed = emu_timers_next_ns() <= emu_engines_next_ns();
    const uint64_t ns = next_event_ns();
    if (ns > now) now = ns;
    if (timed) {
        ring(emu_timers_take());
    } else {
        struct emu_line *line = emu_engines_take(now);
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
            weir__log(
                WEIR__LOG_ERROR,
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
        if (event_ns != EMU_NEVER) {
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
    if (line == NULL || !emu_timers_reserve(1)) {
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
    const double launch_ns = emu_uncharged ? 0 : emu_settings()->profile.launch_ns;
    line->ready_ns[queue->pushed % EMU_QUEUE_ROOM] = emu_later(me->ns, emu_whole_ns(launch_ns));
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
    emu_timers_set(emu_later(host_now_ns(), delay_ns), NULL, gate);
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
    if (emu_uncharged) ns = 0;
    me->ns = emu_later(me->ns, emu_whole_ns(emu_chance_jitter(ns)));
    if (may_switch) me->looks = 0;
    if (may_switch && threads->next != NULL)
        hand_over();
    else
        advance(me->ns);
}

static void pause_ns(uint64_t ns) {
    emu_gates_host_waits();
    me->ns = emu_later(me->ns, ns);
    me->looks = 0;
    hand_over();
}

/* What lies before the calling thread's own time happens first. */
static uint64_t next_ns(void) {
    advance(host_now_ns());
    return next_event_ns();
}

/* A look lets no other thread go on, since programs look with a lock of theirs held. But who looks again and again waits:
 * where looks take no time, for the next event; where there is none, for another thread. */
static void looked(void) {
    enum { MANY = 1000 };
    const bool stands = me->ns == me->looked_ns;
    const uint64_t event_ns = next_event_ns();
    me->looked_ns = me->ns;
    if (++me->looks < MANY) return;
    if (event_ns != EMU_NEVER) {
        if (stands) me->ns = event_ns;
        advance(me->ns);
        return;
    }
    me->state = THREAD_WAITING;
    const struct thread *other = next_thread();
    me->state = THREAD_READY;
    if (other == NULL) return;
    if (me->ns <= other->ns) me->ns = emu_later(other->ns, 1);
    hand_over();
}

static void thread_end(void);

/* A thread that returns without ending its part would keep the turn for good. */
static void thread_returns(void *thread) {
    (void)thread;
    if (emu_ready() != CUDA_SUCCESS) return;
    emu_lock();
    thread_end();
    emu_unlock();
}

static pthread_key_t returns;
static pthread_once_t returns_made = PTHREAD_ONCE_INIT;
static void make_returns(void) { pthread_key_create(&returns, thread_returns); }

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
    made->ns = made->looked_ns = 0;
    made->looks = 0;
    made->self.thread = made;
    made->tie = hash(name, emu_settings()->seed);
    if (threads == NULL && now == 0) emu_chance_seed(emu_settings()->seed);
    struct thread **link = &threads; /* by name: the order in which threads come is not the clock's */
    while (*link != NULL && strcmp((*link)->name, made->name) < 0) link = &(*link)->next;
    made->next = *link;
    *link = me = made;
    pthread_once(&returns_made, make_returns);
    pthread_setspecific(returns, made);
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
                                            .next_ns = next_ns,
                                            .looked = looked,
                                            .thread_begin = thread_begin,
                                            .thread_end = thread_end};

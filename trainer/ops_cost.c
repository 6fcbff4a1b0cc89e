/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that compute nothing: the emulated device takes their time from their description. What the schedule
 * depends on, the routes, is drawn here. */
#include <math.h>

#include "device/emulated.h"
#include "trainer/ops_cpu.h"

/* ---- chance ------------------------------------------------------------------------------------------------------ */

/* splitmix64 (Steele, Lea and Flood 2014) */
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double unit(uint64_t *state) { return (double)(draw(state) >> 11) * 0x1p-53; }

static uint64_t seeded(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t state = a;
    state = draw(&state) + b;
    state = draw(&state) + c;
    return draw(&state);
}

/* ---- routes ------------------------------------------------------------------------------------------------------ */

enum { MOST_EXPERTS = 4096, MOST_CHOSEN = 64, TRIES = 64 };

/* The drawing of one routing, token by token. */
struct drawing {
    const struct ops_routes *routes;
    uint64_t state;
    int64_t turn;          /* for even routes: whose it is */
    int64_t factor, shift; /* the expert of popularity p is (factor p + shift) mod E, another order in each layer */
    double weight[MOST_EXPERTS]; /* running sums, by popularity */
};

static int64_t common_divisor(int64_t a, int64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

static void begin_drawing(struct drawing *d, const struct ops_routes *r, int rank, int64_t number) {
    const int64_t layer = number % r->L;
    uint64_t order = seeded(r->seed, (uint64_t)layer, 0x0bde5);
    assert(r->E <= MOST_EXPERTS && r->K <= MOST_CHOSEN && r->K <= r->E);
    d->routes = r;
    d->state = seeded(r->seed, (uint64_t)rank, (uint64_t)number + 1);
    d->turn = rank * r->T * r->K + layer;
    d->shift = (int64_t)(draw(&order) % (uint64_t)r->E);
    do d->factor = 1 + (int64_t)(draw(&order) % (uint64_t)r->E);
    while (common_divisor(d->factor, r->E) != 1);
    double sum = 0;
    for (int64_t i = 0; i < r->E && r->skew > 0; i++) d->weight[i] = sum += pow((double)(i + 1), -r->skew);
}

/* The first popularity whose running sum is above the drawn one. */
static int64_t draw_popularity(struct drawing *d) {
    const double at = unit(&d->state) * d->weight[d->routes->E - 1];
    int64_t low = 0, high = d->routes->E - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (d->weight[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool has(const int32_t *ids, int64_t count, int64_t id) {
    for (int64_t k = 0; k < count; k++)
        if (ids[k] == id) return true;
    return false;
}

/* Another one than those chosen; when chance gives none for long, the most popular that is left. */
static int32_t draw_expert(struct drawing *d, const int32_t *chosen, int64_t count) {
    const int64_t E = d->routes->E;
    for (int64_t attempt = 0;; attempt++) {
        const int64_t popularity = attempt < TRIES ? draw_popularity(d) : attempt - TRIES;
        const int64_t id = (d->factor * popularity + d->shift) % E;
        if (!has(chosen, count, id)) return (int32_t)id;
    }
}

/* ids (K) of the next token, all different */
static void draw_token(struct drawing *d, int32_t *ids) {
    const struct ops_routes *r = d->routes;
    for (int64_t k = 0; k < r->K; k++) ids[k] = r->skew > 0 ? draw_expert(d, ids, k) : (int32_t)(d->turn++ % r->E);
}

void ops_routes_ids(const struct ops_routes *routes, int rank, int64_t number, int32_t *ids) {
    struct drawing d;
    begin_drawing(&d, routes, rank, number);
    for (int64_t t = 0; t < routes->T; t++) draw_token(&d, ids + t * routes->K);
}

void ops_routes_counts(const struct ops_routes *routes, int rank, int64_t number, int32_t *counts) {
    struct drawing d;
    int32_t ids[MOST_CHOSEN];
    begin_drawing(&d, routes, rank, number);
    memset(counts, 0, (size_t)routes->E * sizeof *counts);
    for (int64_t t = 0; t < routes->T; t++) {
        draw_token(&d, ids);
        for (int64_t k = 0; k < routes->K; k++) counts[ids[k]]++;
    }
}

/* ---- the leaf ---------------------------------------------------------------------------------------------------- */

static void nothing(void *arguments) { (void)arguments; }

/* Routings of a rank run in the order in which the host queued them, so that both count alike. */
static void draw_routes(void *arguments) {
    const struct router_args *r = arguments;
    struct ops_routes *routes = r->state;
    if (!r->replay) ops_routes_ids(routes, routes->rank, (int64_t)routes->drawn++, r->ids_out);
}

#define NOTHING(op) [OP_##op] = nothing,
static const struct ops_leaf unbacked = {.run = {OPS_LIST(NOTHING)}};
#undef NOTHING

#define SMALL_TABLES(op)                                                                                               \
    [OP_##op] = OP_##op == OP_router_forward ? draw_routes : OP_##op == OP_route_plan ? cpu_route_plan : nothing,
static const struct ops_leaf backed = {.run = {OPS_LIST(SMALL_TABLES)}};
#undef SMALL_TABLES

enum weir_status ops_open_cost(struct weir_device *device, enum wire wire, struct ops_routes *routes, struct ops *out) {
    struct weir_emu_machine machine;
    const enum weir_status status = weir__device_machine(device, &machine);
    if (status != WEIR_OK) return status;
    ops_open(device, wire, "cost", NULL, machine.backed ? &backed : &unbacked, routes, out);
    out->routes = routes;
    return WEIR_OK;
}

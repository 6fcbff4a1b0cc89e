/* SPDX-License-Identifier: Apache-2.0 */
/* A treap by address. A node is a block, by its number from 1; 0: none. */
#include "places.h"

#include <stdlib.h>

struct node {
    struct place place;
    uint32_t left, right;
};

struct places {
    uint32_t root;
    struct node nodes[];
};

struct places *places_open(size_t blocks) {
    return calloc(1, sizeof(struct places) + (blocks + 1) * sizeof(struct node));
}

void places_close(struct places *places) { free(places); }

/* Numbers that follow one another get priorities without order. */
static uint32_t priority(uint32_t node) {
    uint32_t mixed = node * UINT32_C(0x9e3779b1);
    mixed = (mixed ^ (mixed >> 15)) * UINT32_C(0x85ebca6b);
    return mixed ^ (mixed >> 13);
}

const struct place *places_overlap(const struct places *places, const struct place *place) {
    for (uint32_t at = places->root; at != 0;) {
        const struct node *node = &places->nodes[at];
        if (node->place.address + node->place.bytes <= place->address)
            at = node->right;
        else if (place->address + place->bytes <= node->place.address)
            at = node->left;
        else
            return &node->place;
    }
    return NULL;
}

/* The nodes below `at`, in two: those before the address, and the others. */
static void split(struct places *places, uint32_t at, uintptr_t address, uint32_t *before, uint32_t *others) {
    while (at != 0) {
        struct node *node = &places->nodes[at];
        if (node->place.address < address) {
            *before = at;
            before = &node->right;
            at = node->right;
        } else {
            *others = at;
            others = &node->left;
            at = node->left;
        }
    }
    *before = *others = 0;
}

/* Needs: all of `first` lies before all of `second`. */
static uint32_t join(struct places *places, uint32_t first, uint32_t second) {
    uint32_t joined = 0, *to = &joined;
    while (first != 0 && second != 0) {
        if (priority(first) > priority(second)) {
            *to = first;
            to = &places->nodes[first].right;
            first = *to;
        } else {
            *to = second;
            to = &places->nodes[second].left;
            second = *to;
        }
    }
    *to = first != 0 ? first : second;
    return joined;
}

/* Where the tree names the first node on the way to an address that is `node`, or has no higher priority. */
static uint32_t *way_to(struct places *places, uint32_t node, uintptr_t address) {
    uint32_t *at = &places->root;
    while (*at != 0 && *at != node && priority(*at) > priority(node)) {
        struct node *passed = &places->nodes[*at];
        at = address < passed->place.address ? &passed->left : &passed->right;
    }
    return at;
}

void places_put(struct places *places, uint32_t block, const struct place *place) {
    const uint32_t made = block + 1;
    uint32_t *at = way_to(places, made, place->address), before, others;
    split(places, *at, place->address, &before, &others);
    places->nodes[made] = (struct node){.place = *place, .left = before, .right = others};
    *at = made;
}

void places_take(struct places *places, uint32_t block) {
    const uint32_t gone = block + 1;
    struct node *node = &places->nodes[gone];
    uint32_t *at = way_to(places, gone, node->place.address);
    *at = join(places, node->left, node->right);
}

/* As deep as the tree, which is O(log n). */
static void each_below(const struct places *places, uint32_t at, void (*visit)(void *, const struct place *),
                       void *to) {
    for (; at != 0; at = places->nodes[at].right) {
        each_below(places, places->nodes[at].left, visit, to);
        visit(to, &places->nodes[at].place);
    }
}

void places_each(const struct places *places, void (*visit)(void *to, const struct place *place), void *to) {
    each_below(places, places->root, visit, to);
}

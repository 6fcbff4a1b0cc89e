/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of WEIR_OPTIONS and of the files that it names. This list makes the struct, the reader, its sentences,
 * weir_pool_options_help and the table of docs/options.md (tests/alloc/options_doc_test.c writes it), so a new key of a
 * known kind is one line here.
 *
 * X(key, kind, default as it would be written or "", what it does) */
#ifndef WEIR_ALLOC_OPTIONS_LIST_H
#define WEIR_ALLOC_OPTIONS_LIST_H

#define WEIR__OPTION_LIST(X)                                                                                           \
    X(policy, POLICY, "latency",                                                                                       \
      "How requests are served. latency: takes new pages while there are any, then waits for other streams' idle "     \
      "blocks. footprint: waits for them first. per-stream: one pool a stream, as caching allocators do, to compare "  \
      "with.")                                                                                                         \
    X(limit, LIMIT, "100%", "Most that the pool takes from the driver. A fraction is one of the device's capacity.")   \
    X(wait_limit, TIME, "10s", "Longest time that one call lets the host wait.")                                       \
    X(deterministic, FLAG, "off",                                                                                      \
      "Addresses, as offsets in the pool, depend on the order of its calls alone, never on how far the device has "    \
      "got.")                                                                                                          \
    X(movable, FLAG, "on",                                                                                             \
      "Idle pages may be mapped at other addresses. off: an address keeps its page until that is given back, "         \
      "for programs that register memory where weir can't see it; what would move is given back and taken anew.")      \
    X(history, COUNT, "0",                                                                                             \
      "How many events a snapshot tells of: the last allocations, frees, refusals and pages taken or given back. Of "  \
      "each 40 bytes of host memory; and while any are kept, every call takes the pool's lock.")                       \
    X(file, FILE, "", "Reads options from a file, at this place in the order. A file can't name another one.")         \
    X(name, NAME, "pool", "What reports and snapshots call the pool.")

/* By kind: what a value is, and the member of struct weir__options that holds it. */
#define WEIR__OPTION_VALUE_POLICY "latency, footprint or per-stream"
#define WEIR__OPTION_VALUE_LIMIT  "bytes (64M, 1.5GiB) or a fraction (0.9, 90%)"
#define WEIR__OPTION_VALUE_TIME   "a time with its unit (10s, 500ms, 20us)"
#define WEIR__OPTION_VALUE_FLAG   "on or off"
#define WEIR__OPTION_VALUE_COUNT  "a whole number from 0 to 1048576"
#define WEIR__OPTION_VALUE_FILE   "a path"
#define WEIR__OPTION_VALUE_NAME   "1 to 63 characters"

#define WEIR__OPTION_MEMBER_POLICY(key) enum weir_policy key;
#define WEIR__OPTION_MEMBER_LIMIT(key)  struct weir__limit key;
#define WEIR__OPTION_MEMBER_TIME(key)   uint64_t key; /* ns */
#define WEIR__OPTION_MEMBER_FLAG(key)   bool key;
#define WEIR__OPTION_MEMBER_COUNT(key)  size_t key; /* at most WEIR__MOST_COUNT */
#define WEIR__OPTION_MEMBER_FILE(key)               /* what it says is in the others */
#define WEIR__OPTION_MEMBER_NAME(key)   char key[WEIR__NAME_ROOM];

#endif

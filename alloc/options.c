/* SPDX-License-Identifier: Apache-2.0 */
/* WEIR_OPTIONS: "policy:footprint,limit:0.9,wait_limit:500ms,deterministic:on". */
#include <string.h>

#include "alloc/pool.h"

static const char *const keys[] = {"policy", "limit", "wait_limit", "deterministic"};
enum { POLICY, LIMIT, WAIT_LIMIT, DETERMINISTIC, KEY_COUNT };

static const struct weir__policy *const policies[] = {&weir__policy_latency, &weir__policy_footprint,
                                                      &weir__policy_per_stream};

const struct weir__policy *weir__policy_find(enum weir_policy name) {
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (policies[i]->name == name) return policies[i];
    return NULL;
}

static enum weir_status parse_policy(const char *value, struct weir__options *options) {
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (strcmp(value, policies[i]->text) == 0) {
            options->policy = policies[i]->name;
            return WEIR_OK;
        }
    return WEIR__INVALID("WEIR_OPTIONS: policy:%s is not one of latency, footprint, per-stream", value);
}

/* Reads "digits" or "digits.digits" by hand, since strtod follows the program's locale. Gives the end, `text` itself when
 * there is no number. */
static const char *read_decimal(const char *text, double *number) {
    const char *at = text;
    double place = 1;
    *number = 0;
    for (; *at >= '0' && *at <= '9'; at++) *number = *number * 10 + (*at - '0');
    if (at == text || *at != '.') return at;
    for (at++; *at >= '0' && *at <= '9'; at++) *number += (*at - '0') * (place /= 10);
    return at;
}

/* A fraction of the capacity when it has a point or a percent sign and no unit, else bytes. */
static enum weir_status parse_limit(const char *value, struct weir__options *options) {
    double number;
    const char *end = read_decimal(value, &number);
    bool percent = end != value && strcmp(end, "%") == 0;
    if (percent || (end != value && *end == 0 && strchr(value, '.') != NULL)) {
        double fraction = percent ? number / 100 : number;
        if (!(fraction > 0 && fraction <= 1))
            return WEIR__INVALID("WEIR_OPTIONS: limit:%s must be above 0 and at most 1 (or 100%%)", value);
        options->limit_fraction = fraction;
        options->limit_bytes = 0;
        return WEIR_OK;
    }
    if (!weir__parse_bytes(value, &options->limit_bytes) || options->limit_bytes == 0)
        return WEIR__INVALID("WEIR_OPTIONS: limit:%s is neither bytes (64M, 1.5GiB) nor a fraction (0.9, 90%%)", value);
    options->limit_fraction = 0;
    return WEIR_OK;
}

static enum weir_status parse_wait_limit(const char *value, struct weir__options *options) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double number;
    const char *end = read_decimal(value, &number);
    for (size_t i = 0; end != value && i < sizeof units / sizeof *units; i++) {
        double ns = number * units[i].ns;
        if (strcmp(end, units[i].unit) != 0 || !(ns >= 1 && ns < 1e18)) continue;
        options->wait_limit_ns = (uint64_t)ns;
        return WEIR_OK;
    }
    return WEIR__INVALID("WEIR_OPTIONS: wait_limit:%s is not a time above 0 with a unit (10s, 500ms, 20us)", value);
}

static enum weir_status parse_deterministic(const char *value, struct weir__options *options) {
    options->deterministic = strcmp(value, "on") == 0;
    if (options->deterministic || strcmp(value, "off") == 0) return WEIR_OK;
    return WEIR__INVALID("WEIR_OPTIONS: deterministic:%s is neither on nor off", value);
}

static enum weir_status parse_pair(const char *key, const char *value, struct weir__options *options) {
    if (strcmp(key, keys[POLICY]) == 0) return parse_policy(value, options);
    if (strcmp(key, keys[LIMIT]) == 0) return parse_limit(value, options);
    if (strcmp(key, keys[WAIT_LIMIT]) == 0) return parse_wait_limit(value, options);
    if (strcmp(key, keys[DETERMINISTIC]) == 0) return parse_deterministic(value, options);
    const char *nearest = weir__nearest(key, keys, KEY_COUNT);
    if (nearest != NULL) return WEIR__INVALID("WEIR_OPTIONS: unknown key '%s'; did you mean '%s'?", key, nearest);
    return WEIR__INVALID("WEIR_OPTIONS: unknown key '%s'; known are policy, limit, wait_limit, deterministic", key);
}

static enum weir_status parse_item(const char *item, size_t length, struct weir__options *options) {
    char text[128];
    if (length >= sizeof text)
        return WEIR__INVALID("WEIR_OPTIONS: '%.32s...' is %zu characters long, the limit is %zu", item, length,
                             sizeof text - 1);
    memcpy(text, item, length);
    text[length] = 0;
    char *colon = strchr(text, ':');
    if (colon == NULL) return WEIR__INVALID("WEIR_OPTIONS: '%s' is not key:value", text);
    *colon = 0;
    return parse_pair(text, colon + 1, options);
}

enum weir_status weir__options_parse(const char *text, struct weir__options *options) {
    enum weir_status status = WEIR_OK;
    while (text != NULL && *text != 0 && status == WEIR_OK) {
        size_t length = strcspn(text, ",");
        if (length > 0) status = parse_item(text, length, options);
        text += length + (text[length] == ',');
    }
    return status;
}

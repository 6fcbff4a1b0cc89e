/* SPDX-License-Identifier: Apache-2.0 */
#include "gen_settings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/error.h"

enum type { COUNT, REAL, SWITCH, LENGTHS, FSDP, SCATTER, EXCHANGE, TRAIN };

static const char *const choices[][2] = {[FSDP] = {"fsdp1", "fsdp2"},
                                         [SCATTER] = {"rs", "compute"},
                                         [EXCHANGE] = {"compute", "comm"},
                                         [TRAIN] = {"full", "lora"}};

static const struct parameter {
    const char *key;
    enum type type;
    size_t place;
    int64_t least, most;
    const char *start[GEN_MODELS]; /* NULL: the model has no such key */
    const char *text;
} parameters[] = {
#define ROW(type, key, least, most, moe, dense, text)                                                                  \
    {#key, type, offsetof(struct gen_settings, key), least, most, {moe, dense}, text},
    GEN_PARAMETERS(ROW)
#undef ROW
};
#define PARAMETERS (sizeof parameters / sizeof *parameters)

static const char *const model_names[GEN_MODELS] = {"a mixture of experts", "a GPT"};

/* ---- text to value ----------------------------------------------------------------------------------------------- */

static bool word_switch(const char *text, bool *value) {
    static const char *const on[] = {"True", "true", "on", "1"}, *const off[] = {"False", "false", "off", "0"};
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        if (strcmp(text, on[i]) == 0 || strcmp(text, off[i]) == 0) {
            *value = strcmp(text, on[i]) == 0;
            return true;
        }
    }
    return false;
}

static bool number(const char *text, char **end, double *value) {
    errno = 0;
    *value = strtod(text, end);
    return errno == 0 && *end != text && isfinite(*value);
}

/* "MEAN,DEVIATION", in brackets or not. */
static bool pair(const char *text, struct gen_lengths *lengths) {
    char *end;
    bool bracket = *text == '(';
    if (!number(text + bracket, &end, &lengths->mean) || *end != ',') return false;
    if (!number(end + 1, &end, &lengths->deviation)) return false;
    if (bracket && *end++ != ')') return false;
    lengths->vary = true;
    return *end == '\0' && lengths->mean >= 0 && lengths->mean <= 100 && lengths->deviation >= 0 &&
           lengths->deviation <= 100;
}

static bool read_lengths(enum gen_model model, const char *text, struct gen_lengths *value) {
    struct gen_lengths lengths = {0};
    if (model == GEN_DENSE && strcmp(text, "None") != 0 && strcmp(text, "False") != 0) {
        if (!pair(text, &lengths)) return false;
    } else if (model == GEN_MOE && !word_switch(text, &lengths.vary)) {
        return false;
    }
    *value = lengths;
    return true;
}

static bool read_count(const struct parameter *parameter, const char *text, int64_t *value) {
    char *end;
    errno = 0;
    long long read = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || read < parameter->least || read > parameter->most) return false;
    *value = read;
    return true;
}

static bool read_real(const struct parameter *parameter, const char *text, double *value) {
    char *end;
    double read;
    if (!number(text, &end, &read) || *end != '\0') return false;
    if (read < (double)parameter->least || read > (double)parameter->most) return false;
    *value = read;
    return true;
}

static bool read_choice(const struct parameter *parameter, const char *text, int *value) {
    for (int i = 0; i < 2; i++) {
        if (strcmp(text, choices[parameter->type][i]) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static bool read_value(const struct parameter *parameter, struct gen_settings *settings, const char *text) {
    void *at = (char *)settings + parameter->place;
    switch (parameter->type) {
    case COUNT:
        return read_count(parameter, text, at);
    case REAL:
        return read_real(parameter, text, at);
    case SWITCH:
        return word_switch(text, at);
    case LENGTHS:
        return read_lengths(settings->model, text, at);
    default:
        return read_choice(parameter, text, at);
    }
}

/* ---- value to text ----------------------------------------------------------------------------------------------- */

static void write_value(const struct parameter *parameter, const struct gen_settings *settings, char *text,
                        size_t room) {
    const void *at = (const char *)settings + parameter->place;
    const struct gen_lengths *lengths = at;
    switch (parameter->type) {
    case COUNT:
        snprintf(text, room, "%" PRId64, *(const int64_t *)at);
        break;
    case REAL:
        snprintf(text, room, "%g", *(const double *)at);
        break;
    case SWITCH:
        snprintf(text, room, "%s", *(const bool *)at ? "True" : "False");
        break;
    case LENGTHS:
        if (settings->model == GEN_MOE)
            snprintf(text, room, "%s", lengths->vary ? "True" : "False");
        else if (!lengths->vary)
            snprintf(text, room, "None");
        else
            snprintf(text, room, "%g,%g", lengths->mean, lengths->deviation);
        break;
    default:
        snprintf(text, room, "%s", choices[parameter->type][*(const int *)at]);
    }
}

static void write_limits(const struct parameter *parameter, enum gen_model model, char *text, size_t room) {
    switch (parameter->type) {
    case COUNT:
        snprintf(text, room, "a whole number from %" PRId64 " to %" PRId64, parameter->least, parameter->most);
        break;
    case REAL:
        snprintf(text, room, "a number from %" PRId64 " to %" PRId64, parameter->least, parameter->most);
        break;
    case SWITCH:
        snprintf(text, room, "True or False");
        break;
    case LENGTHS:
        snprintf(text, room, "%s", model == GEN_MOE ? "True or False" : "MEAN,DEVIATION, each from 0 to 100, or None");
        break;
    default:
        snprintf(text, room, "%s or %s", choices[parameter->type][0], choices[parameter->type][1]);
    }
}

/* ---- the settings as a whole ------------------------------------------------------------------------------------- */

static bool unknown_key(const struct gen_settings *settings, const char *key, char *why, size_t room) {
    const char *keys[PARAMETERS];
    size_t count = 0;
    for (size_t i = 0; i < PARAMETERS; i++)
        if (parameters[i].start[settings->model] != NULL) keys[count++] = parameters[i].key;
    const char *nearest = weir__nearest(key, keys, count);
    int length = snprintf(why, room, "%s has no parameter '%.40s'", model_names[settings->model], key);
    if (nearest != NULL)
        snprintf(why + length, room - (size_t)length, "; did you mean %s?", nearest);
    else
        snprintf(why + length, room - (size_t)length, " (--help lists them)");
    return false;
}

bool gen_settings_set(struct gen_settings *settings, const char *assignment, char *why, size_t room) {
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment) {
        snprintf(why, room, "--set is '%.60s', expected KEY=VALUE", assignment);
        return false;
    }
    char key[64], limits[96];
    snprintf(key, sizeof key, "%.*s", (int)(equals - assignment < 63 ? equals - assignment : 63), assignment);
    for (size_t i = 0; i < PARAMETERS; i++) {
        const struct parameter *parameter = &parameters[i];
        if (parameter->start[settings->model] == NULL || strcmp(parameter->key, key) != 0) continue;
        if (read_value(parameter, settings, equals + 1)) return true;
        write_limits(parameter, settings->model, limits, sizeof limits);
        snprintf(why, room, "%s is '%.60s', expected %s", key, equals + 1, limits);
        return false;
    }
    return unknown_key(settings, key, why, room);
}

void gen_settings_start(struct gen_settings *settings, enum gen_model model, const char *changes) {
    char text[512], why[256];
    *settings = (struct gen_settings){.model = model};
    for (size_t i = 0; i < PARAMETERS; i++)
        if (parameters[i].start[model] != NULL) read_value(&parameters[i], settings, parameters[i].start[model]);
    snprintf(text, sizeof text, "%s", changes);
    char *rest = text;
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (gen_settings_set(settings, word, why, sizeof why)) continue;
        fprintf(stderr, "weir-trace gen: a bug of the generator: %s\n", why);
        abort();
    }
}

bool gen_settings_check(const struct gen_settings *settings, char *why, size_t room) {
    const int64_t most_tokens = INT64_C(1) << 28, tokens = settings->seq * settings->batch;
    if (tokens > most_tokens) {
        snprintf(why, room, "seq=%" PRId64 " times batch=%" PRId64 " is %" PRId64 " tokens, expected at most %" PRId64,
                 settings->seq, settings->batch, tokens, most_tokens);
        return false;
    }
    if (settings->model == GEN_DENSE && settings->maxlen * settings->batch > most_tokens) {
        snprintf(why, room,
                 "maxlen=%" PRId64 " times batch=%" PRId64 " is %" PRId64 " tokens, expected at most %" PRId64,
                 settings->maxlen, settings->batch, settings->maxlen * settings->batch, most_tokens);
        return false;
    }
    return true;
}

void gen_settings_difference(const struct gen_settings *settings, const struct gen_settings *base, char *text,
                             size_t room) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < PARAMETERS; i++) {
        char now[64], before[64];
        if (parameters[i].start[settings->model] == NULL) continue;
        write_value(&parameters[i], settings, now, sizeof now);
        write_value(&parameters[i], base, before, sizeof before);
        if (strcmp(now, before) == 0 || length >= room) continue;
        int added = snprintf(text + length, room - length, " --set %s=%s", parameters[i].key, now);
        length += (size_t)added;
    }
}

void gen_settings_help(const struct gen_settings *settings, FILE *to) {
    for (size_t i = 0; i < PARAMETERS; i++) {
        char value[64], limits[96];
        if (parameters[i].start[settings->model] == NULL) continue;
        write_value(&parameters[i], settings, value, sizeof value);
        write_limits(&parameters[i], settings->model, limits, sizeof limits);
        fprintf(to, "  %-12s %-8s %s (%s)\n", parameters[i].key, value, parameters[i].text, limits);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the options table prints: the help and the dump. */
#include <string.h>

#include "trainer/config_table.h"

/* "--seq=N", "--[no-]offload", "--policy=latency|footprint|per-stream" is too wide for a column, so "--policy=NAME". */
static void print_flag(const struct option *option, char *out, size_t room) {
    static const char *const value_names[] = {NULL, "N", "X", "BYTES", NULL, "NAME"};
    if (option->kind == OPTION_FLAG)
        snprintf(out, room, "--[no-]%s", option->flag);
    else
        snprintf(out, room, "--%s=%s", option->flag,
                 option->kind == OPTION_TEXT ? option->unit : value_names[option->kind]);
}

/* The part in brackets: unit, range or choices, default. */
static void print_facts(const struct option *option, FILE *out) {
    switch (option->kind) {
    case OPTION_INT:
    case OPTION_REAL:
        fprintf(out, " [%s%s%.10g to %.10g; default %s]", option->unit, *option->unit ? ", " : "", option->least,
                option->most, option->fallback);
        break;
    case OPTION_BYTES:
        fprintf(out, " [bytes; default %s]", option->fallback);
        break;
    case OPTION_FLAG:
        fprintf(out, " [default %s]", option->fallback);
        break;
    case OPTION_CHOICE:
        fprintf(out, " [%s; default %s]", option->unit, option->fallback);
        break;
    case OPTION_TEXT:
        fprintf(out, *option->fallback ? " [default %s]" : " [default none]", option->fallback);
        break;
    }
}

void config_help(FILE *out) {
    const struct option *options = config_options();
    char flag[64];
    fputs("Usage: weir-train [OPTION]...\n\n"
          "Trains a mixture-of-experts transformer on a text, on several ranks, each with its own device.\n"
          "K, M, G and T after bytes count by 1024. --key VALUE is the same as --key=VALUE.\n",
          out);
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        if (!i || strcmp(options[i].section, options[i - 1].section)) fprintf(out, "\n%s:\n", options[i].section);
        print_flag(&options[i], flag, sizeof flag);
        fprintf(out, "  %-22s %s", flag, options[i].help);
        print_facts(&options[i], out);
        fputc('\n', out);
    }
    fputs("\nOther:\n"
          "  --config=FILE          read options from a YAML file, `section: { key: value }`; flags win over it\n"
          "  --dump-config          print the options in force as YAML, and end\n"
          "  --help                 print this, and end\n"
          "  --version              print the version, and end\n"
          "\nExit status: 0 done, 1 failure, 2 bad input, 3 out of device memory, 130 interrupted.\n"
          "Environment: WEIR_DEVICE, WEIR_EMU, WEIR_OPTIONS, WEIR_TRACE, WEIR_LOG apply where no option is given.\n",
          out);
}

/* The code point at *at, and moves *at behind it. The text is UTF-8. */
static unsigned next_code_point(const unsigned char **at) {
    unsigned lead = *(*at)++;
    if (lead < 0x80) return lead;
    int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    unsigned code = lead & (0x3Fu >> more);
    while (more--) code = code << 6 | (*(*at)++ & 0x3Fu);
    return code;
}

/* A double-quoted YAML scalar. Escapes all that is not plain ASCII, since YAML folds or forbids some of the rest. */
static void dump_text(const char *text, FILE *out) {
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        unsigned code = next_code_point(&at);
        if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else if (code < 0x20 || code >= 0x7F)
            fprintf(out, "\\U%08X", code);
        else
            fputc((int)code, out);
    }
    fputc('"', out);
}

void config_dump(const struct config *config, FILE *out) {
    const struct option *options = config_options();
    char value[1100];
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        if (!i || strcmp(options[i].section, options[i - 1].section)) fprintf(out, "%s:\n", options[i].section);
        config_get(config, &options[i], value);
        fprintf(out, "  %s: ", options[i].key);
        if (options[i].kind == OPTION_TEXT)
            dump_text(value, out);
        else
            fputs(value, out);
        fputc('\n', out);
    }
}

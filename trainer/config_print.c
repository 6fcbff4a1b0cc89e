/* SPDX-License-Identifier: Apache-2.0 */
/* What the options table prints: the help and the dump. */
#include <string.h>

#include "trainer/config_table.h"
#include "weir/weir.h"

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

static const char environment[] = "WEIR_DEVICE counts for --device=auto, WEIR_TRACE where --trace is not given,\n"
                                  "WEIR_EMU and WEIR_OPTIONS for what no option says, WEIR_LOG for the libraries.\n";

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
          "  --man                  print the manual page, for man -l -, and end\n"
          "  --help                 print this, and end\n"
          "  --version              print the version, and end\n"
          "\nExit status: 0 done, 1 failure, 2 bad input, 3 out of device memory, 130 interrupted.\n"
          "\nEnvironment: ",
          out);
    fputs(environment, out);
}

/* Text for roff: dashes that may be copied, no escapes of its own. */
static void print_roff(const char *text, FILE *out) {
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') fputc('\\', out);
        fputc(*text == '\\' ? 'e' : *text, out);
    }
}

void config_man(FILE *out) {
    const struct option *options = config_options();
    char flag[64];
    fprintf(out,
            ".TH WEIR\\-TRAIN 1 \"\" \"weir %s\" \"weir\"\n.SH NAME\nweir\\-train \\- train a mixture-of-experts "
            "transformer on a nearly full device\n.SH SYNOPSIS\n.B weir\\-train\n[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n"
            "Trains a mixture-of-experts transformer on a text, on several ranks, each with its own device. Started by "
            "hand it starts its ranks itself; started by\n.BR mpirun (1)\nit is one of them. K, M, G and T after bytes "
            "count by 1024.\n.SH OPTIONS\n",
            WEIR_VERSION_STRING);
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        if (!i || strcmp(options[i].section, options[i - 1].section)) fprintf(out, ".SS %s\n", options[i].section);
        print_flag(&options[i], flag, sizeof flag);
        fputs(".TP\n.B ", out);
        print_roff(flag, out);
        fputc('\n', out);
        print_roff(options[i].help, out);
        print_facts(&options[i], out);
        fputc('\n', out);
    }
    fputs(".SS other\n"
          ".TP\n.B \\-\\-config=FILE\nread options from a YAML file of sections; flags win over it\n"
          ".TP\n.B \\-\\-dump\\-config\nprint the options in force as YAML, and end\n"
          ".SH EXIT STATUS\n0 done, 1 failure, 2 bad input, 3 out of device memory, 130 interrupted\n"
          ".SH ENVIRONMENT\n",
          out);
    fputs(environment, out);
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

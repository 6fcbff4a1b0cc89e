/* SPDX-License-Identifier: Apache-2.0 */
/* The table in docs/options.md is the one that the list of options gives. WEIR_WRITE_DOCS=1 writes it there anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/options_list.h"
#include "support.h"

#define BEGIN "<!-- of alloc/options_list.h; WEIR_WRITE_DOCS=1 options_doc_test writes it anew -->\n"
#define END   "<!-- end -->\n"

static const char table[] = "| key | value | default | what it does |\n"
                            "| --- | --- | --- | --- |\n"
#define ROW(key, kind, fallback, help) "| `" #key "` | " WEIR__OPTION_VALUE_##kind " | " fallback " | " help " |\n"
    WEIR__OPTION_LIST(ROW)
#undef ROW
    ;

static const char *document(void) {
    const char *path = getenv("WEIR_OPTIONS_DOC");
    assert_non_null(path);
    return path;
}

static char *read_document(void) {
    enum { ROOM = 65536 };
    char *text = calloc(1, ROOM);
    FILE *file = fopen(document(), "r");
    assert_non_null(text);
    assert_non_null(file);
    assert_true(fread(text, 1, ROOM - 1, file) < ROOM - 1);
    fclose(file);
    return text;
}

static void write_document(const char *head, const char *tail) {
    FILE *file = fopen(document(), "w");
    assert_non_null(file);
    fprintf(file, "%s%s%s", head, table, tail);
    assert_int_equal(fclose(file), 0);
}

static void the_table_is_that_of_the_list(void **state) {
    (void)state;
    char *text = read_document();
    char *begin = strstr(text, BEGIN), *end = strstr(text, END);
    assert_true(begin != NULL && end != NULL && begin < end);
    begin += strlen(BEGIN);
    char *tail = strdup(end);
    assert_non_null(tail);
    *end = 0;
    const bool same = strcmp(begin, table) == 0;
    *begin = 0;
    if (getenv("WEIR_WRITE_DOCS") != NULL)
        write_document(text, tail);
    else if (!same)
        fail_msg("%s does not have the table of alloc/options_list.h; WEIR_WRITE_DOCS=1 writes it", document());
    free(tail);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table_is_that_of_the_list)};
    return cmocka_run_group_tests_name("options_doc", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of pages. cmocka is included before. */
#ifndef WEIR_TESTS_WELL_FORMED_H
#define WEIR_TESTS_WELL_FORMED_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A small checker of XML: every element is closed in order, every attribute is quoted, no stray '<' or '&'. */
struct checker {
    const char *at;
    char open[64][32];
    size_t depth;
};

static size_t name_take(struct checker *checker, char name[32]) {
    size_t length = strcspn(checker->at, " \t\n/>=");
    assert_true(length > 0 && length < 32);
    snprintf(name, 32, "%.*s", (int)length, checker->at);
    checker->at += length;
    return length;
}

static void attributes_take(struct checker *checker) {
    char name[32];
    while (checker->at += strspn(checker->at, " \t\n"), *checker->at && !strchr("/>", *checker->at)) {
        name_take(checker, name);
        if (strncmp(checker->at, "=\"", 2) != 0) fail_msg("attribute %s has no quoted value", name);
        checker->at += 2;
        size_t length = strcspn(checker->at, "\"<");
        assert_int_equal(checker->at[length], '"');
        checker->at += length + 1;
    }
}

static void element_take(struct checker *checker) {
    char name[32];
    bool closing = *checker->at == '/';
    checker->at += closing;
    name_take(checker, name);
    if (closing) {
        assert_true(checker->depth > 0);
        if (strcmp(checker->open[--checker->depth], name) != 0)
            fail_msg("</%s> closes <%s>", name, checker->open[checker->depth]);
    }
    attributes_take(checker);
    bool empty = *checker->at == '/';
    checker->at += empty;
    assert_int_equal(*checker->at++, '>');
    assert_true(checker->depth < 64);
    if (!closing && !empty) snprintf(checker->open[checker->depth++], 32, "%s", name);
}

static void is_well_formed(const char *page) {
    static const char doctype[] = "<!DOCTYPE html>";
    assert_int_equal(strncmp(page, doctype, sizeof doctype - 1), 0);
    struct checker checker = {.at = page + sizeof doctype - 1};
    while (*(checker.at += strcspn(checker.at, "<&"))) {
        if (*checker.at++ == '&') {
            assert_true(*checker.at == '#');
            assert_int_equal(checker.at[1 + strspn(checker.at + 1, "0123456789")], ';');
        } else {
            element_take(&checker);
        }
    }
    assert_int_equal(checker.depth, 0);
}

/* Nothing in the page makes a browser load what is not in it. */
static void asks_for_nothing_from_elsewhere(const char *page) {
    static const char *const never[] = {"src=", "href=", "@import", "url(\"", "url('", "url(h", "fetch(", "XMLHttp"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(page, never[i]) != NULL) fail_msg("the page has \"%s\"", never[i]);
    assert_non_null(strstr(page, "default-src 'none'"));
}

#endif

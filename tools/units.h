/* A unit test is TEST(name) { … }. cmocka runs all tests of a file, in their order there.
 *                                                             SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_UNITS_H
#define DUMPULSE_UNITS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct CMUnitTest unit_tests[64];
static size_t unit_count;

/* With functions that run before and after it, or NULL. */
#define TEST_BETWEEN(name, set_up, tear_down)                                                      \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        unit_tests[unit_count++] =                                                                 \
            (struct CMUnitTest)cmocka_unit_test_setup_teardown(name, set_up, tear_down);           \
    }                                                                                              \
    static void name(void **state __attribute__((unused)))

#define TEST(name) TEST_BETWEEN(name, NULL, NULL)
#define TEST_AFTER(set_up, name) TEST_BETWEEN(name, set_up, NULL)

static inline int run_units(const char *group)
{
    return _cmocka_run_group_tests(group, unit_tests, unit_count, NULL, NULL);
}

#endif

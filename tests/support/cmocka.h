/* Replaces cmocka on machines that do not have it.   SPDX-License-Identifier: MIT
 *
 * It has what tests/unit.c and units.h use of cmocka, with the same names. The first failure ends
 * the program with status 1. `make check` uses it; `make test` uses the real cmocka.
 */
#ifndef DUMPULSE_RUNNER_H
#define DUMPULSE_RUNNER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The calls that a test has announced and that have not come yet, in order. */
enum { RUNNER_CALL, RUNNER_PARAMETER, RUNNER_RESULT, RUNNER_MOST = 64 };

static struct {
    int kind;
    const char *function, *parameter;
    uintmax_t value;
} runner_announced[RUNNER_MOST];
static size_t runner_count;

static void runner_check(int holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    exit(1);
}

static void runner_announce(int kind, const char *function, const char *parameter, uintmax_t value)
{
    runner_check(runner_count < RUNNER_MOST, "room for what is announced", __FILE__, __LINE__);
    runner_announced[runner_count].kind = kind;
    runner_announced[runner_count].function = function;
    runner_announced[runner_count].parameter = parameter;
    runner_announced[runner_count++].value = value;
}

/* The first call of this kind must be for this function and parameter. Returns its value. */
static uintmax_t runner_take(int kind, const char *function, const char *parameter,
                             const char *file, int line)
{
    size_t at = 0;

    while (at < runner_count && runner_announced[at].kind != kind)
        at++;
    runner_check(at < runner_count && strcmp(runner_announced[at].function, function) == 0 &&
                     strcmp(runner_announced[at].parameter, parameter) == 0,
                 function, file, line);
    const uintmax_t value = runner_announced[at].value;
    runner_count--;
    memmove(runner_announced + at, runner_announced + at + 1,
            (runner_count - at) * sizeof runner_announced[0]);
    return value;
}

#define assert_true(holds) runner_check((holds) != 0, #holds, __FILE__, __LINE__)
#define assert_false(holds) runner_check(!(holds), "not " #holds, __FILE__, __LINE__)
#define assert_int_equal(one, other)                                                               \
    runner_check((uintmax_t)(one) == (uintmax_t)(other), #one " equals " #other, __FILE__, __LINE__)
#define assert_memory_equal(one, other, size)                                                      \
    runner_check(memcmp(one, other, size) == 0, #one " equals " #other, __FILE__, __LINE__)

#define expect_function_call(function) runner_announce(RUNNER_CALL, #function, "", 0)
#define function_called() (void)runner_take(RUNNER_CALL, __func__, "", __FILE__, __LINE__)
#define will_return(function, value) runner_announce(RUNNER_RESULT, #function, "", (value))
#define mock_type(type) (type) runner_take(RUNNER_RESULT, __func__, "", __FILE__, __LINE__)
#define expect_value(function, parameter, value)                                                   \
    runner_announce(RUNNER_PARAMETER, #function, #parameter, (uintmax_t)(uintptr_t)(value))
#define check_expected(parameter)                                                                  \
    runner_check((uintmax_t)(uintptr_t)(parameter) ==                                              \
                     runner_take(RUNNER_PARAMETER, __func__, #parameter, __FILE__, __LINE__),      \
                 #parameter " is as announced", __FILE__, __LINE__)
#define check_expected_ptr(parameter) check_expected(parameter)

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test_setup_teardown(function, set_up, tear_down)                               \
    {                                                                                              \
#function, function                                                                        \
    }
#define _cmocka_run_group_tests(group, tests, count, set_up, tear_down)                            \
    runner_run(group, tests, count)

static int runner_run(const char *group, const struct CMUnitTest *tests, size_t count)
{
    void *state = NULL;

    for (size_t i = 0; i < count; i++) {
        tests[i].run(&state);
        runner_check(runner_count == 0, tests[i].name, "announced, and did not happen", 0);
    }
    printf("%s: %u passed, 0 failed\n", group, (unsigned)count);
    return 0;
}

#endif

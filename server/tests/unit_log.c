/* Unit tests of log_write() in server/log.c: it never waits for whoever reads the log, not even if
 * somebody else fills the pipe or socket just after poll() has found room in it.
 *                                                             SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for mkstemp and alarm */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/log.h"
#include "tools/units.h"

static int filled = -1; /* after the next poll(), somebody fills it from this descriptor */

/* The linker gives all calls of poll() to this. */
int __real_poll(struct pollfd *one, nfds_t count, int patience);
int __wrap_poll(struct pollfd *one, nfds_t count, int patience)
{
    static const char junk[512];
    const int found = __real_poll(one, count, patience);

    if (filled >= 0) {
        const int flags = fcntl(filled, F_GETFL);
        assert_int_equal(fcntl(filled, F_SETFL, flags | O_NONBLOCK), 0);
        while (write(filled, junk, sizeof junk) > 0)
            continue;
        assert_int_equal(fcntl(filled, F_SETFL, flags), 0);
    }
    return found;
}

static const char line[] = "unit: a line\n";

static void read_back(int descriptor, const char *wanted)
{
    char text[64] = "";

    assert_int_equal(fcntl(descriptor, F_SETFL, O_NONBLOCK), 0);
    (void)!read(descriptor, text, sizeof text - 1);
    assert_string_equal(text, wanted);
}

static int begin(void **state)
{
    (void)state;
    filled = -1;
    log_begin("unit");
    (void)signal(SIGPIPE, SIG_IGN);
    (void)alarm(20); /* This ends a write that waits. */
    return 0;
}

TEST_AFTER(begin, test_a_pipe)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    log_write(ends[1], line, sizeof line - 1);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); /* others have this one, too */
    read_back(ends[0], line);
    filled = ends[1];
    log_write(ends[1], line, sizeof line - 1);
    filled = -1;
    log_write(ends[1], line, sizeof line - 1); /* poll() finds no room */
    (void)close(ends[0]);
    log_write(ends[1], line, sizeof line - 1); /* nobody reads any more */
    (void)close(ends[1]);
    log_write(ends[1], line, sizeof line - 1); /* it is gone */
}

TEST_AFTER(begin, test_a_socket)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    log_write(ends[1], line, sizeof line - 1);
    read_back(ends[0], line);
    filled = ends[1];
    log_write(ends[1], line, sizeof line - 1);
    filled = -1;
    (void)close(ends[0]);
    log_write(ends[1], line, sizeof line - 1);
    (void)close(ends[1]);
}

TEST_AFTER(begin, test_a_file)
{
    char path[] = "/tmp/unit-log-XXXXXX";
    const int file = mkstemp(path);

    assert_true(file >= 0);
    log_write(file, line, sizeof line - 1);
    log_write(file, line, sizeof line - 1); /* goes behind the first one */
    assert_int_equal(lseek(file, 0, SEEK_CUR), 2 * (sizeof line - 1));
    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
    read_back(file, "unit: a line\nunit: a line\n");
    (void)close(file);
    (void)unlink(path);
}

/* A full pipe takes a part of a line, or none. Their number is logged when there is room. */
TEST_AFTER(begin, test_lost_lines_are_counted_and_logged)
{
    int ends[2];
    char text[PIPE_BUF + 1] = "";
    const int kept = dup(STDERR_FILENO);

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    filled = ends[1];
    log_say("lost");
    filled = -1;
    log_say("lost, too");
    (void)log_say_lost();
    assert_int_equal(log_lost(), 2);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    while (read(ends[0], text, sizeof text - 1) > 0)
        continue;
    memset(text, 0, sizeof text);
    log_say("written");
    (void)!read(ends[0], text, sizeof text - 1);
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    assert_string_equal(text, "unit: 2 lines could not be written\nunit: written\n");
    assert_int_equal(log_lost(), 2);
}

/* A file at its limit takes a part of a line. The next one begins a new line. */
TEST_AFTER(begin, test_a_torn_line)
{
    static const char after[] = "\nunit: 1 line could not be written\n";
    char path[] = "/tmp/unit-log-XXXXXX", text[200] = "";
    const int file = mkstemp(path), kept = dup(STDERR_FILENO);
    struct rlimit limit, before;

    (void)log_say_lost();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 10;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)dup2(file, STDERR_FILENO);
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    assert_false(log_say("torn"));
    (void)setrlimit(RLIMIT_FSIZE, &before);
    assert_true(log_say("whole"));
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    (void)close(file);
    (void)unlink(path);
    assert_memory_equal(text + 10, after, sizeof after - 1);
}

static int free_descriptor(void)
{
    const int free_one = dup(STDERR_FILENO);

    (void)close(free_one);
    return free_one;
}

TEST_AFTER(begin, test_no_descriptor_is_left_open)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    const int before = free_descriptor();
    log_write(ends[1], line, sizeof line - 1);
    assert_int_equal(free_descriptor(), before);
}

int main(void)
{
    return run_units("unit-log");
}

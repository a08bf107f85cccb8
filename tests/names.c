/* What tests/test_names.py needs of server/names.c.   SPDX-License-Identifier: MIT */
#include "../server/names.h"
#include "../server/options.h"

/* Reads a file of names. Returns "", or what is wrong with it. */
const char *read_names(const char *path, uint64_t tick);
const char *read_names(const char *path, uint64_t tick)
{
    options.wrong[0] = '\0';
    options.tick = tick;
    (void)names_read(path);
    return options.wrong;
}

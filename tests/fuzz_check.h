/* The assertion of the fuzz targets.   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz: not so: %s\n", #condition);                                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* PQClean wants glibc's features.h; newlib has it here.   SPDX-License-Identifier: MIT */
#include <sys/features.h>

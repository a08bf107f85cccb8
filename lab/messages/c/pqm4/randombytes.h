/* As pqm4's, whose schemes include it.   SPDX-License-Identifier: MIT */
#ifndef RANDOMBYTES_H
#define RANDOMBYTES_H
#include <stddef.h>
#include <stdint.h>
#define randombytes PQCLEAN_randombytes /* SUPERCOP's takes an unsigned long long */
int randombytes(uint8_t *bytes, size_t length);
#endif

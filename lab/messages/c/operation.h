/* What a scheme's file gives to the lab: its steps.   SPDX-License-Identifier: MIT
 *
 * A step is one thing that a node does with the scheme: make a key, sign, verify. It has three
 * functions; only the second is counted. For a step `sign`, STEP(sign) declares
 *
 *     sign_prepare(n)   makes the input of the n-th run, which is the same on every machine
 *     sign_run()        does the work
 *     sign_right()      true if the work was done: the right was accepted, the wrong refused
 *
 * Every scheme has a step `vectors`, too. It runs before any other is counted, and compares with
 * published vectors.
 *
 * What belongs to the measurement and not to the scheme is named lab_…: messages, keys, results.
 * Its bytes are taken off the flash and the static RAM of the step.
 */
#ifndef OPERATION_H
#define OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEP(step)                                                                                 \
    void step##_prepare(unsigned n);                                                               \
    void step##_run(void);                                                                         \
    bool step##_right(void);

#define LAB_APART __attribute__((noinline, noclone))

#ifndef LAB_LENGTH
#define LAB_LENGTH 4 /* bytes of the message: a heartbeat without its checksum */
#endif

/* The message of the n-th run. */
static inline void lab_fill(uint8_t *bytes, size_t length, unsigned n)
{
    uint32_t state = 0x9E3779B9U * (n + 1U); /* xorshift: nothing depends on its quality */
    for (size_t i = 0; i < length; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes[i] = (uint8_t)(state >> 24);
    }
}

static inline bool lab_same(const uint8_t *a, const uint8_t *b, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

#endif

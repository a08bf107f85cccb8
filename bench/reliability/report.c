/* Damages reports of 260 bytes at random, and counts how many a reader takes: for `report-damage`.
 *
 *     report SEED TRIALS
 *
 * Each trial has a new table, a new checksum and a new error. For each kind of table and of error
 * it prints "TABLE ERROR AMOUNT TAKEN TRIALS". After each kind of table it prints a line on stderr.
 * The same seed gives the same output.   SPDX-License-Identifier: MIT
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dumpulse.h"

enum { BITS = 8 * DUMPULSE_REPORT_SIZE };

static uint64_t state;

uint16_t dumpulse_get_timestamp(void)
{
    return 0;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    memcpy(context, packet, length);
}

/* SplitMix64: all 2^64 numbers come before one comes again. */
static uint64_t random_number(void)
{
    uint64_t mixed = state += 0x9E3779B97F4A7C15U;

    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBU;
    return mixed ^ mixed >> 31;
}

/* A number from 0 to limit - 1. The chances differ by less than limit / 2^32 of each. */
static unsigned random_below(unsigned limit)
{
    return (unsigned)((random_number() >> 32) * limit >> 32);
}

static void empty(uint8_t *entries)
{
    memset(entries, 0, 256);
}

/* Up to eight variables are set, all in the first 255 ticks, by small numbers. */
static void sparse(uint8_t *entries)
{
    memset(entries, 0, 256);
    for (int i = 0; i < 8; i++) {
        uint8_t *entry = entries + (size_t)4 * random_below(DUMPULSE_VARIABLES);
        entry[1] = (uint8_t)random_below(256);
        entry[2] = (uint8_t)(1 + random_below(16));
        entry[3] = (uint8_t)random_below(16);
    }
}

static void full(uint8_t *entries)
{
    for (int i = 0; i < 256; i += 8) {
        const uint64_t bits = random_number();
        memcpy(entries + i, &bits, 8);
    }
}

static void flip(uint8_t *report, unsigned bit)
{
    report[bit / 8] ^= (uint8_t)(128U >> bit % 8);
}

/* Flips that many different bits. */
static void flips(uint8_t *report, unsigned count)
{
    unsigned chosen[8];

    for (unsigned i = 0; i < count; i++) {
        chosen[i] = random_below(BITS);
        for (unsigned j = 0; j < i; j++)
            if (chosen[j] == chosen[i])
                i--, j = i; /* chosen already: chooses this one again */
    }
    for (unsigned i = 0; i < count; i++)
        flip(report, chosen[i]);
}

/* Flips the first and the last of that many bits in a row, and some of those between. */
static void burst(uint8_t *report, unsigned length)
{
    const unsigned first = random_below(BITS - length + 1);

    flip(report, first);
    flip(report, first + length - 1);
    for (unsigned i = 1; i < length - 1; i++)
        if (random_below(2) == 1)
            flip(report, first + i);
}

static bool read_number(const char *text, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fill)(uint8_t *entries);
    } tables[] = {{"empty", empty}, {"sparse", sparse}, {"full", full}};
    static const struct {
        const char *name;
        void (*damage)(uint8_t *report, unsigned amount);
        unsigned amount;
    } errors[] = {{"flips", flips, 1},  {"flips", flips, 2},  {"flips", flips, 3},
                  {"flips", flips, 4},  {"flips", flips, 5},  {"flips", flips, 6},
                  {"flips", flips, 8},  {"burst", burst, 8},  {"burst", burst, 16},
                  {"burst", burst, 24}, {"burst", burst, 32}, {"burst", burst, 64}};
    const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    uint64_t trials;

    if (argc != 3 || !read_number(argv[1], &state) || !read_number(argv[2], &trials) ||
        trials == 0) {
        (void)fputs("usage: report SEED TRIALS, two numbers, of trials at least one\n", stderr);
        return 2;
    }
    for (size_t table = 0; table < sizeof tables / sizeof *tables; table++) {
        for (size_t error = 0; error < sizeof errors / sizeof *errors; error++) {
            uint64_t taken = 0;
            for (uint64_t trial = 0; trial < trials; trial++) {
                dumpulse agent;
                uint8_t report[DUMPULSE_REPORT_SIZE];
                tables[table].fill(agent.report + 4);
                dumpulse_process_packet(&agent, request, sizeof request, report);
                errors[error].damage(report, errors[error].amount);
                taken += dumpulse_check_report(report, sizeof report);
            }
            printf("%s\t%s\t%u\t%llu\t%llu\n", tables[table].name, errors[error].name,
                   errors[error].amount, (unsigned long long)taken, (unsigned long long)trials);
        }
        (void)fprintf(stderr, "report: %s tables done\n", tables[table].name);
    }
    return 0;
}

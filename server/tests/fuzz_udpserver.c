/* libFuzzer target: what udpserver reads besides packets, which is its arguments, its state
 * file, its file of names, and the key and its numbers.
 * SPDX-License-Identifier: MIT
 *
 * Before that, it checks with fixed data who may ask, which block of epochs a date has, and that
 * nobody else can read the memory with the key. The first byte of an input says what it is. A
 * failure prints a command that runs it again:
 *     build/fuzz/server build/fuzz/crash-…
 */
#define _GNU_SOURCE /* NOLINT: for IFNAMSIZ */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>

#include "server/can.h"
#include "server/endpoints.h"
#include "server/keys.h"
#include "server/keys_internal.h"
#include "server/names.h"
#include "server/options.h"
#include "server/program.h"
#include "server/snapshot.h"
#include "server/table.h"
#include "server/timing.h"
#include "server/udpserver_internal.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz: not so: %s\n", #condition);                                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Writes the right CRC into a state. */
static void put_crc(uint8_t *state)
{
    const uint32_t crc = snapshot_crc32(state, SNAPSHOT_CRC_AT);

    for (unsigned i = 0; i < 4; i++)
        state[SNAPSHOT_CRC_AT + i] = (uint8_t)(crc >> (24 - 8 * i));
}

static void check_networks(const struct address_networks *networks)
{
    CHECK(networks->count <= ADDRESS_NETWORKS);
    for (size_t i = 0; i < networks->count; i++) {
        const struct address_network *one = &networks->list[i];
        CHECK(address_is_in(networks, one->address));
        CHECK(one->ipv4 == address_is_ipv4(one->address));
        CHECK(!one->ipv4 || one->mask[ADDRESS_MAPPED - 1] == 0xFF);
    }
}

/* The arguments are separated by zero bytes. */
static void try_arguments(char *text, size_t size)
{
    char *arguments[100] = {"udpserver"};
    int count = 1;

    for (size_t i = 0; i < size && count < 100; i += strlen(text + i) + 1)
        arguments[count++] = text + i;
    if (!options_read(program.options, count, arguments)) {
        CHECK(options.wrong[0] != '\0' && strlen(options.wrong) < sizeof options.wrong);
        return;
    }
    CHECK(options.wrong[0] == '\0');
    CHECK(endpoints_port <= UINT16_MAX);
    CHECK(endpoints_count <= ENDPOINTS_MAX);
    CHECK(udpserver.readers.count >= 1);
    check_networks(&udpserver.readers);
    check_networks(&udpserver.senders);
    CHECK(udpserver.burst >= 1 && udpserver.burst <= 1000000);
    CHECK(udpserver.rate >= 1 && udpserver.rate <= 1000000);
    CHECK(udpserver.rate_total >= 1 && udpserver.rate_total <= 1000000);
    CHECK(can_interface == NULL || (can_interface[0] != '\0' && strlen(can_interface) < IFNAMSIZ));
    CHECK(options.tick >= 1 && options.tick <= 3600000);
    CHECK(options.state_every >= 1 && options.state_every <= 86400);
    CHECK(!options.self ||
          (options.self_variable < 64 && options.self_sender >= 1 && options.self_sender <= 255));
    CHECK(options.state == NULL || strlen(options.state) <= OPTIONS_LONGEST_PATH);
    CHECK(options.state != NULL || options.state_every == 10);
    CHECK(options.key != NULL || options.also_unkeyed == 0);
    CHECK(options.key == NULL || options.state != NULL);
    CHECK(options.stats == NULL || (options.stats[0] != '\0' && strlen(options.stats) < 108));
}

/* A state of any bytes. If it is accepted, the server must write the same bytes again. It runs with
 * --keep-old, because otherwise some entries are too old at once. */
static void try_state(const uint8_t *bytes, size_t size)
{
    dumpulse read = {{0}};
    uint8_t again[SNAPSHOT_SIZE] = {0};
    unsigned forgotten = 0;

    options.keep_old = true;
    const uint8_t *const at = bytes + SNAPSHOT_WRITTEN_AT;
    const uint64_t written =
        size == SNAPSHOT_SIZE ? (uint64_t)dumpulse_read_(at) << 32 | dumpulse_read_(at + 4) : 0;
    if (snapshot_decode(bytes, size, written, &read, &forgotten) == SNAPSHOT_GOOD) {
        CHECK(forgotten == 0); /* no time has passed */
        snapshot_encode(again, &read, written);
        CHECK(memcmp(bytes, again, SNAPSHOT_ALARMS_AT) == 0); /* Unknown records end there. */
    } else {
        for (size_t i = 0; i < sizeof read; i++)
            CHECK(read.report[i] == 0);
    }
}

static void set_arguments(char *option, char *value)
{
    char *arguments[] = {"udpserver", option, value, NULL};

    CHECK(options_read(program.options, option == NULL ? 1 : 3, arguments));
}

static bool is_allowed_text(const char *text)
{
    uint8_t address[ADDRESS_SIZE];

    CHECK(address_read(text, strlen(text), address));
    return address_is_in(&udpserver.readers, address);
}

/* Tries rules of every length, with addresses that differ from them in each single bit. */
static void try_rule(const char *text)
{
    uint8_t whole[ADDRESS_SIZE], address[ADDRESS_SIZE];
    char host[INET6_ADDRSTRLEN], rule[INET6_ADDRSTRLEN + 8];

    CHECK(address_read(text, strlen(text), whole));
    const unsigned before = address_is_ipv4(whole) ? 8 * ADDRESS_MAPPED : 0;
    for (unsigned bits = before; bits <= 8 * ADDRESS_SIZE; bits++) {
        memcpy(address, whole, sizeof address);
        for (unsigned bit = bits; bit < 8 * ADDRESS_SIZE; bit++)
            address[bit / 8] &= (uint8_t)(~(0x80U >> bit % 8));
        CHECK(inet_ntop(AF_INET6, address, host, sizeof host) != NULL);
        (void)snprintf(rule, sizeof rule, "%s/%u", host, bits - before);
        set_arguments("--allow", rule);
        CHECK(address_is_in(&udpserver.readers, whole));
        for (unsigned bit = 0; bit < 8 * ADDRESS_SIZE; bit++) {
            memcpy(address, whole, sizeof address);
            address[bit / 8] ^= (uint8_t)(0x80U >> bit % 8);
            CHECK(address_is_in(&udpserver.readers, address) == (bit >= bits));
        }
    }
}

static void try_who_gets_a_report(void)
{
    set_arguments(NULL, NULL);
    CHECK(is_allowed_text("127.0.0.1") && is_allowed_text("127.255.255.255"));
    CHECK(!is_allowed_text("126.255.255.255") && !is_allowed_text("128.0.0.0"));
    CHECK(is_allowed_text("::1") && !is_allowed_text("::") && !is_allowed_text("8000::1"));
    try_rule("2001:db8:1234:5678:9abc:def0:f:ffff");
    try_rule("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    try_rule("255.255.255.255");
    try_rule("192.0.2.1");
    set_arguments("--allow", "::/0");
    CHECK(is_allowed_text("::1") && !is_allowed_text("192.0.2.1"));
}

/* A file of names. A zero byte follows it. */
static void try_names(char *text, size_t length)
{
    bool any = false;

    if (!names_parse("names.ini", text, length)) {
        CHECK(strncmp(options.wrong, "names.ini", 9) == 0);
        CHECK(strlen(options.wrong) < sizeof options.wrong);
        return;
    }
    CHECK(options.wrong[0] == '\0');
    for (const struct names_variable *one = names_variables;
         one != names_variables + DUMPULSE_VARIABLES; one++) {
        CHECK(one->warn <= one->crit && one->crit <= 65470);
        CHECK(one->low <= one->high);
        CHECK(strlen(one->name) < sizeof one->name);
        any = any || one->expected;
    }
    CHECK(any);
}

/* ---- Version 2 -------------------------------------------------------------------------- */

static void try_blocks(void)
{
    static const uint64_t year_2020 = 1577836800, each = 900;
    uint32_t block;

    CHECK(keys_choose_block(year_2020, &block) && block == 0);
    CHECK(keys_choose_block(year_2020 + each - 1, &block) && block == 0);
    CHECK(keys_choose_block(year_2020 + each, &block) && block == 1);
    CHECK(keys_choose_block(year_2020 + each * 0x1FFFFE, &block) && block == 0x1FFFFE);
    CHECK(!keys_choose_block(year_2020 + each * 0x1FFFFF, &block));
    CHECK(!keys_choose_block(year_2020 - 1, &block) && !keys_choose_block(0, &block));
}

static void try_memory(void)
{
    options.key = "/nonexistent";
    CHECK(!keys_read() && prctl(PR_GET_DUMPABLE, 0L, 0L, 0L, 0L) == 0);
    (void)prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L); /* the sanitizers need it */
}

/* If a master key's file is accepted, it has nothing but what was read from it. */
static void try_master(const char *text, size_t size)
{
    char again[KEYS_LONGEST + 1];
    size_t length = 0, lines = 0;

    options.key = "key";
    if (!keys_parse(&keys, text, size, &keys.master))
        return;
    for (size_t i = 0; i < sizeof keys.master.key; i++)
        length +=
            (size_t)snprintf(again + length, sizeof again - length, "%02x", keys.master.key[i]);
    CHECK(memcmp(text, again, KEYS_DIGITS) == 0);
    for (const char *line = memchr(text, '\n', size); line != NULL && line + 1 != text + size;
         line = memchr(line + 1, '\n', (size_t)(text + size - line - 1))) {
        unsigned variable, generation;
        if (sscanf(line + 1, "%u %u", &variable, &generation) == 2) {
            CHECK(keys.master.generations[variable] == generation);
            (void)snprintf(again, sizeof again, "%u %u\n", variable, generation);
        } else if (line[1] == 'r') {
            (void)snprintf(again, sizeof again, "readers %u\n",
                           keys.master.generations[DUMPULSE_READER_LABEL]);
        } else {
            CHECK(keys.master.epoch >= 1 && keys.master.epoch <= 3600);
            (void)snprintf(again, sizeof again, "epoch %u\n", keys.master.epoch);
        }
        CHECK(memcmp(line + 1, again, strlen(again)) == 0);
        CHECK(++lines <= DUMPULSE_VARIABLES + 2);
    }
}

/* If numbers are accepted, the server must write the same bytes again. */
static void try_numbers(uint8_t *bytes, size_t size, bool mend)
{
    uint8_t again[NUMBERS_SIZE];
    struct numbers numbers;

    if (mend && size >= NUMBERS_SIZE) { /* chance seldom finds the right CRC */
        memcpy(bytes, "Dumpulsekey3", NUMBERS_MARK_AT);
        dumpulse_write_(bytes + NUMBERS_SUM_AT, snapshot_crc32(bytes, NUMBERS_SUM_AT));
    }
    const bool is_good = numbers_decode(&numbers, bytes, size);
    CHECK(is_good || !mend || size != NUMBERS_SIZE);
    if (!is_good)
        return;
    CHECK(size == sizeof again);
    numbers_encode(again, &numbers);
    CHECK(memcmp(bytes, again, sizeof again) == 0 && !numbers_are_later(bytes, again, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;

    if (!begun) {
        try_who_gets_a_report();
        try_blocks();
        try_memory();
    }
    begun = true;
    if (size == 0)
        return 0;
    /* The input gets a block of its own, so that AddressSanitizer finds a read past its end. */
    char *copy = (char *)malloc(size);
    CHECK(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    copy[size - 1] = '\0';
    if (data[0] == 'n') {
        set_arguments(NULL, NULL);
        try_names(copy, size - 1);
        free(copy);
        return 0;
    }
    if (data[0] == 'k') {
        set_arguments(NULL, NULL);
        try_master(copy, size - 1);
        try_numbers((uint8_t *)copy, size - 1, size > 1 && data[1] >= 128);
        free(copy);
        return 0;
    }
    if (data[0] % 2 == 0) {
        try_arguments(copy, size);
    } else {
        set_arguments(NULL, NULL);
        if (size > SNAPSHOT_SIZE && data[0] >= 128) /* chance seldom finds the right CRC */
            put_crc((uint8_t *)copy);
        try_state((uint8_t *)copy, size - 1);
    }
    free(copy);
    return 0;
}

/* libFuzzer target: what udpserver reads that is not a packet, its arguments and its state
 * file.   SPDX-License-Identifier: MIT
 *
 * The first byte of an input says which; a failure prints its replay:
 *     make replay-server INPUT=build/fuzz/server-crash-…
 */
#define main udpserver_main
#include "../agent/service.c" /* NOLINT: its functions are static */
#include "../udpserver.c"     /* NOLINT: so are these */
#undef main

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz: not so: %s\n", #condition);                                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Arguments are what stands between zero bytes. */
static void try_arguments(char *text, size_t size)
{
    char *arguments[100] = {"udpserver"};
    int count = 1;

    for (size_t i = 0; i < size && count < 100; i += strlen(text + i) + 1)
        arguments[count++] = text + i;
    if (!read_arguments(count, arguments)) {
        CHECK(options.wrong[0] != '\0' && strlen(options.wrong) < sizeof options.wrong);
        return;
    }
    CHECK(options.wrong[0] == '\0');
    CHECK(network.port <= UINT16_MAX);
    CHECK(network.bind_count <= MAX_BINDS);
    CHECK(network.rule_count >= 1 && network.rule_count <= MAX_RULES);
    for (size_t i = 0; i < network.rule_count; i++) {
        CHECK(network.rules[i].bits <= 128);
        CHECK(!is_ipv4(network.rules[i].address) || network.rules[i].bits >= 96);
    }
    CHECK(network.rate >= 1 && network.rate <= 1000000);
    CHECK(network.rate_total >= 1 && network.rate_total <= 1000000);
    CHECK(can_interface == NULL || (can_interface[0] != '\0' && strlen(can_interface) < IFNAMSIZ));
    CHECK(options.tick >= 1 && options.tick <= 3600000);
    CHECK(options.state_every >= 1 && options.state_every <= 86400);
    CHECK(!options.self ||
          (options.self_variable < 64 && options.self_sender >= 1 && options.self_sender <= 255));
    CHECK(options.state == NULL || strlen(options.state) <= LONGEST_PATH);
}

/* Any bytes: good ones are those that the server itself would have written. */
static void try_state(const uint8_t *bytes, size_t size)
{
    dumpulse read = {{0}};
    uint8_t again[STATE_SIZE];
    unsigned forgotten = 0;

    const uint64_t written = size == STATE_SIZE ? get_number(bytes + WRITTEN_AT, 8) : 0;
    if (decode_state(bytes, size, written, &read, &forgotten) == STATE_GOOD) {
        CHECK(forgotten == 0); /* no time has passed */
        encode_state(again, &read, written);
        CHECK(memcmp(bytes, again, sizeof again) == 0);
    } else {
        for (size_t i = 0; i < sizeof read; i++)
            CHECK(read.report[i] == 0);
    }
}

/* A table is written, and read some time later: each entry is whole, or gone because its age no
 * longer fits in 16 bits. */
static void try_time(const uint8_t *bytes, uint64_t written, uint64_t passed)
{
    dumpulse table = {{0}}, read = {{0}};
    uint8_t state[STATE_SIZE];
    unsigned forgotten = 0, gone = 0;

    memcpy(table.report + 4, bytes, ENTRIES_SIZE);
    encode_state(state, &table, written * options.tick);
    CHECK(decode_state(state, sizeof state, (written + passed) * options.tick, &read, &forgotten) ==
          STATE_GOOD);
    for (unsigned i = 0; i < 64; i++) {
        const uint8_t *before = table.report + 4 + 4 * (size_t)i;
        const uint8_t *after = read.report + 4 + 4 * (size_t)i;
        const uint64_t age = ((written % 65536 + 65536 - before[0] * 256U - before[1]) % 65536);
        const bool empty = (before[0] | before[1] | before[2] | before[3]) == 0;
        if (!empty && age + passed > 65535) {
            CHECK((after[0] | after[1] | after[2] | after[3]) == 0);
            gone++;
        } else {
            CHECK(memcmp(before, after, 4) == 0);
        }
    }
    CHECK(gone == forgotten);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { TIMES = 1 + 4 + 3 };
    char *none[] = {"udpserver", NULL};

    if (size == 0)
        return 0;
    /* A block of its own, so that AddressSanitizer sees a read past its end. */
    char *copy = (char *)malloc(size);
    CHECK(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    copy[size - 1] = '\0';
    switch (data[0] % 3) {
    case 0: try_arguments(copy, size); break;
    case 1:
        CHECK(read_arguments(1, none));
        if (size > STATE_SIZE && data[0] >= 128) /* a right sum, which it would seldom find */
            put_number((uint8_t *)copy + CRC_AT, 4, crc32_of((uint8_t *)copy, CRC_AT));
        try_state((uint8_t *)copy, size - 1);
        break;
    default:
        CHECK(read_arguments(1, none));
        if (size >= TIMES + ENTRIES_SIZE)
            try_time(data + TIMES, get_number(data + 1, 4), get_number(data + 5, 3));
    }
    free(copy);
    return 0;
}

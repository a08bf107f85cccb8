/* libFuzzer target: what udpserver reads that is not a packet, its arguments and its state
 * file.   SPDX-License-Identifier: MIT
 *
 * Before that, without any chance, who gets a report. The first byte of an input says what it
 * is; a failure prints its replay:
 *     make replay-server INPUT=build/fuzz/server-crash-…
 */
#define _GNU_SOURCE           /* NOLINT: as udpserver.c has it */
#include "../agent/options.c" /* NOLINT: its functions are static */
#include "../agent/state.c"   /* NOLINT: so are these */
#include "../udpserver.c"     /* NOLINT: and these */

#include "fuzz_check.h"

/* Arguments are what stands between zero bytes. */
static void try_arguments(char *text, size_t size)
{
    char *arguments[100] = {"udpserver"};
    int count = 1;

    for (size_t i = 0; i < size && count < 100; i += strlen(text + i) + 1)
        arguments[count++] = text + i;
    if (!options_read(count, arguments)) {
        CHECK(options.wrong[0] != '\0' && strlen(options.wrong) < sizeof options.wrong);
        return;
    }
    CHECK(options.wrong[0] == '\0');
    CHECK(network.port <= UINT16_MAX);
    CHECK(network.bind_count <= MAX_BINDS);
    CHECK(network.rule_count >= 1 && network.rule_count <= MAX_RULES);
    for (size_t i = 0; i < network.rule_count; i++) {
        CHECK(is_allowed(network.rules[i].address));
        CHECK(!is_ipv4(network.rules[i].address) || network.rules[i].mask[11] == 0xFF);
    }
    CHECK(network.rate >= 1 && network.rate <= 1000000);
    CHECK(network.rate_total >= 1 && network.rate_total <= 1000000);
    CHECK(can_interface == NULL || (can_interface[0] != '\0' && strlen(can_interface) < IFNAMSIZ));
    CHECK(options.tick >= 1 && options.tick <= 3600000);
    CHECK(options.state_every >= 1 && options.state_every <= 86400);
    CHECK(!options.self ||
          (options.self_variable < 64 && options.self_sender >= 1 && options.self_sender <= 255));
    CHECK(options.state == NULL || strlen(options.state) <= OPTIONS_LONGEST_PATH);
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

static void set_arguments(char *option, char *value)
{
    char *arguments[] = {"udpserver", option, value, NULL};

    CHECK(options_read(option == NULL ? 1 : 3, arguments));
}

static bool is_allowed_text(const char *text)
{
    uint8_t address[ADDRESS_SIZE];

    CHECK(read_address(text, strlen(text), address));
    return is_allowed(address);
}

/* Rules of every length, and addresses that differ from them in every bit. */
static void try_rule(const char *text)
{
    uint8_t whole[ADDRESS_SIZE], address[ADDRESS_SIZE];
    char host[INET6_ADDRSTRLEN], rule[INET6_ADDRSTRLEN + 8];

    CHECK(read_address(text, strlen(text), whole));
    const unsigned before = is_ipv4(whole) ? MAPPED_BITS : 0;
    for (unsigned bits = before; bits <= ADDRESS_BITS; bits++) {
        memcpy(address, whole, sizeof address);
        for (unsigned bit = bits; bit < ADDRESS_BITS; bit++)
            address[bit / 8] &= (uint8_t) ~(0x80U >> bit % 8);
        CHECK(inet_ntop(AF_INET6, address, host, sizeof host) != NULL);
        (void)snprintf(rule, sizeof rule, "%s/%u", host, bits - before);
        set_arguments("--allow", rule);
        CHECK(is_allowed(whole));
        for (unsigned bit = 0; bit < ADDRESS_BITS; bit++) {
            memcpy(address, whole, sizeof address);
            address[bit / 8] ^= (uint8_t)(0x80U >> bit % 8);
            CHECK(is_allowed(address) == (bit >= bits));
        }
    }
}

static bool is_within(const char *text)
{
    uint8_t address[ADDRESS_SIZE];

    CHECK(read_address(text, strlen(text), address));
    return is_within_rate(address);
}

/* How many reports a source gets when it asks and asks, all at that time. */
static unsigned taken_at(struct bucket *bucket, uint64_t interval, uint64_t now)
{
    unsigned taken = 0;

    for (; has_left(bucket, interval, now); taken++)
        take_one(bucket, interval, now);
    return taken;
}

/* A second's worth at once, then one each interval; however long it was silent, no more. */
static void try_limit(unsigned rate, uint64_t start)
{
    const uint64_t each = TIMING_SECOND / rate, hour = 3600 * TIMING_SECOND;
    struct bucket bucket = {0, 0};

    CHECK(taken_at(&bucket, each, start) == rate);
    CHECK(taken_at(&bucket, each, start + each - 1) == 0);
    CHECK(taken_at(&bucket, each, start + each) == 1);
    CHECK(taken_at(&bucket, each, start + hour) == rate);
    CHECK(taken_at(&bucket, each, start + hour + TIMING_SECOND / 2) == rate / 2);
}

static void try_limits(void)
{
    static const unsigned rates[] = {1, 2, 10, 1000}; /* a second divides by them */

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        for (uint64_t start = TIMING_SECOND; start < 64 * TIMING_SECOND; start += TIMING_SECOND / 3)
            try_limit(rates[i], start);
}

/* One report a second for each source: it takes a few µs to ask for these. */
static void try_sources(void)
{
    char newcomer[] = "2001:db8:0:0::";

    set_arguments("--rate", "1");
    prepare_limits();
    set_secret = 1; /* what starts with the same 10 bits belongs to one set */
    CHECK(is_within("192.0.2.1") && is_within("192.0.2.0") && is_within("192.0.3.1"));
    CHECK(!is_within("192.0.2.1"));
    CHECK(is_within("2001:db8:0:1::") && !is_within("2001:db8:0:1:8000::"));
    for (newcomer[11] = '2'; newcomer[11] <= '4'; newcomer[11]++)
        CHECK(is_within(newcomer));      /* the 64th bit is another source, too */
    CHECK(!is_within("2001:db8:0:5::")); /* the set is full, */
    for (newcomer[11] = '1'; newcomer[11] <= '4'; newcomer[11]++)
        CHECK(!is_within(newcomer)); /* and nobody was forgotten for it */
}

/* Who is refused of so many sources that ask once, because others are where it belongs. */
enum { MANY = 3000 };

static unsigned refused_of_many(bool refused[MANY])
{
    uint8_t address[ADDRESS_SIZE] = {0};
    uint64_t chance = 1;
    unsigned count = 0;

    set_arguments("--rate-total", "1000000");
    memset(buckets, 0, sizeof buckets);
    everybody = (struct bucket){0, 0};
    prepare_limits();
    for (unsigned i = 0; i < MANY; i++) {
        chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407U; /* Knuth's */
        put_number(address, 8, chance >> 3); /* below 2000::, so none is an IPv4 one */
        refused[i] = !is_within_rate(address);
        count += refused[i];
    }
    return count;
}

/* Nobody can know who that is: each start has its own secret. */
static void try_secret(void)
{
    static bool once[MANY], again[MANY];

    CHECK(refused_of_many(once) > 0);
    CHECK(refused_of_many(again) > 0);
    CHECK(memcmp(once, again, sizeof once) != 0);
}

/* Who gets no report because all together have had theirs is not charged for it. */
static void try_total(void)
{
    set_arguments("--rate", "1");
    memset(buckets, 0, sizeof buckets);
    prepare_limits();
    everybody.free_at = timing_ns() + 3600 * TIMING_SECOND;
    CHECK(!is_within("192.0.2.1"));
    everybody.free_at = 0;
    CHECK(is_within("192.0.2.1"));
    CHECK(!is_within("192.0.2.1"));
}

/* The interface that a report leaves by, if the request came to that IPv4 address by the first. */
static int interface_of_ipv4_answer(void)
{
    size_t control[CONTROL_ROOM / sizeof(size_t)] = {0};
    struct msghdr reply,
        request = {.msg_control = control, .msg_controllen = CMSG_SPACE(sizeof(struct in_pktinfo))};
    struct in_pktinfo info = {.ipi_ifindex = 1, .ipi_spec_dst = {htonl(INADDR_LOOPBACK)}};

    *CMSG_FIRSTHDR(&request) = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&request)), &info, sizeof info);
    answer_from_there(&reply, &request);
    CHECK(reply.msg_control == control && reply.msg_controllen == request.msg_controllen);
    memcpy(&info, CMSG_DATA(CMSG_FIRSTHDR(&reply)), sizeof info);
    CHECK(info.ipi_spec_dst.s_addr == htonl(INADDR_LOOPBACK));
    return info.ipi_ifindex;
}

/* The same for IPv6. */
static unsigned interface_of_answer(const char *text)
{
    size_t control[CONTROL_ROOM / sizeof(size_t)] = {0};
    struct msghdr reply, request = {.msg_control = control, .msg_controllen = CONTROL_ROOM};
    struct in6_pktinfo info = {.ipi6_ifindex = 1};

    CHECK(inet_pton(AF_INET6, text, &info.ipi6_addr) == 1);
    *CMSG_FIRSTHDR(&request) = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IPV6, .cmsg_type = IPV6_PKTINFO};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&request)), &info, sizeof info);
    answer_from_there(&reply, &request);
    CHECK(reply.msg_control == control && reply.msg_controllen == CONTROL_ROOM);
    memcpy(&info, CMSG_DATA(CMSG_FIRSTHDR(&reply)), sizeof info);
    return info.ipi6_ifindex;
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
    try_limits();
    try_sources();
    try_secret();
    try_total();
    CHECK(interface_of_ipv4_answer() == 0); /* by whatever route there is */
    CHECK(interface_of_answer("fe80::1") == 1 && interface_of_answer("2001:db8::1") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { TIMES = 1 + 4 + 3 };
    static bool begun;

    if (!begun)
        try_who_gets_a_report();
    begun = true;
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
        set_arguments(NULL, NULL);
        if (size > STATE_SIZE && data[0] >= 128) /* a right sum, which it would seldom find */
            put_number((uint8_t *)copy + CRC_AT, 4, crc32_of((uint8_t *)copy, CRC_AT));
        try_state((uint8_t *)copy, size - 1);
        break;
    default:
        set_arguments(NULL, NULL);
        if (size >= TIMES + ENTRIES_SIZE)
            try_time(data + TIMES, get_number(data + 1, 4), get_number(data + 5, 3));
    }
    free(copy);
    return 0;
}

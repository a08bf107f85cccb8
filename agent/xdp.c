/* Heartbeats that the kernel takes for udpserver; see xdp.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for getifaddrs */
#include "xdp.h"

#include "log.h"
#include "options.h"

enum { INTERFACES_MAX = 8 };

static struct interface {
    const char *name;
    int link;       /* the descriptor that holds the program there; -1: the interface is gone */
    unsigned index; /* its number now; 0: it is gone */
    uint64_t hardware;
} interfaces[INTERFACES_MAX];
size_t xdp_interface_count;
bool xdp_optional;

void xdp_set_defaults(void)
{
    xdp_interface_count = 0;
    xdp_optional = false;
}

bool xdp_add_interface(const char *text)
{
    if (xdp_interface_count == INTERFACES_MAX)
        return options_wrong("--xdp may be given %d times at most", INTERFACES_MAX);
    for (size_t i = 0; i < xdp_interface_count; i++)
        if (strcmp(interfaces[i].name, text) == 0)
            return options_wrong("--xdp %.40s is there twice", text);
    interfaces[xdp_interface_count++] = (struct interface){.name = text, .link = -1};
    return true;
}

/* Says why it cannot be used on the interface. Returns whether the server may start. */
static bool give_up(const char *interface, const char *why)
{
    log_say("cannot use --xdp %.40s: %s%s", interface, why,
            xdp_optional ? "; serving without it" : "");
    return xdp_optional;
}

#ifndef DUMPULSE_XDP

bool xdp_begin(const struct xdp_service *wanted)
{
    (void)wanted;
    return xdp_interface_count == 0 ||
           give_up(interfaces[0].name,
                   "this udpserver was built without it: it needs clang, bpftool and libbpf-dev");
}

uint64_t xdp_new_heartbeats(void)
{
    return 0;
}

void xdp_finish(void)
{
}

#else

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "table.h"
#include "timing.h"
#include "xdp/shared.h"

#include <xdp_program.skel.h>

static struct xdp_program *program;
static struct xdp_service service;

/* ---- What the program has to know ------------------------------------------------------- */

/* The program knows the time since the machine was started, and adds this offset. It is measured
 * again if something has come between the two clocks. */
static uint64_t clock_offset(void)
{
    enum { TRIES = 10, SLOW = 20000 /* ns */ };
    struct timespec before, after;
    uint64_t unix_ns;

    for (unsigned i = 0; i < TRIES; i++) {
        (void)clock_gettime(CLOCK_BOOTTIME, &before);
        unix_ns = timing_unix_ns();
        (void)clock_gettime(CLOCK_BOOTTIME, &after);
        if (after.tv_sec == before.tv_sec && after.tv_nsec - before.tv_nsec < SLOW)
            break;
    }
    return unix_ns - ((uint64_t)before.tv_sec * TIMING_SECOND + (uint64_t)before.tv_nsec);
}

static struct xdp_list places; /* what the machine has now */
static size_t served_count, place_count;

/* Adds an address, which is served if the interface is not NULL. */
static void add_place(const uint8_t address[ADDRESS_SIZE], const struct interface *interface)
{
    struct xdp_place *place = &places.places[place_count++ % XDP_PLACES];

    if (interface != NULL) {
        struct xdp_place *first = &places.places[served_count++ % XDP_PLACES];
        *place = *first;
        place = first;
        place->hardware = interface->hardware;
        place->interface = interface->index;
    }
    memcpy(&place->address, address, ADDRESS_SIZE);
    places.last_bytes |= UINT64_C(1) << xdp_last_byte(&place->address);
}

/* Returns the interface if it is one of --xdp, and a socket gets packets for this address of it. */
static const struct interface *served_at(const char *name, const uint8_t address[ADDRESS_SIZE])
{
    for (size_t i = 0; i < xdp_interface_count; i++)
        if (strcmp(interfaces[i].name, name) == 0)
            return service.serves(address, interfaces[i].index) ? &interfaces[i] : NULL;
    return NULL;
}

/* Adds an IPv4 address. Those of the network itself and of broadcasts are no sources, either. */
static void add_ipv4(const struct ifaddrs *one)
{
    uint8_t address[ADDRESS_SIZE];
    struct sockaddr_in own, mask;

    memcpy(&own, one->ifa_addr, sizeof own);
    memcpy(&mask, one->ifa_netmask, sizeof mask);
    const uint32_t bits = own.sin_addr.s_addr, ones = mask.sin_addr.s_addr;
    const uint32_t three[] = {bits, bits & ones, bits | ~ones};
    memcpy(address, address_mapped, ADDRESS_MAPPED);
    for (size_t i = 0; i < 3; i++) {
        memcpy(address + ADDRESS_MAPPED, &three[i], sizeof three[i]);
        if (i == 0 || three[i] != bits)
            add_place(address, i == 0 ? served_at(one->ifa_name, address) : NULL);
    }
}

/* Adds the IPv6 addresses. While the machine asks its neighbours if an address is free, the kernel
 * refuses packets for it. getifaddrs() does not say that, and this file does. Without the file, no
 * IPv6 address is served. */
static void add_ipv6(void)
{
    enum { NOT_YET = IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_OPTIMISTIC, LINE = 128 };
    FILE *file = fopen("/proc/net/if_inet6", "re");
    char line[LINE], name[IF_NAMESIZE];
    unsigned parts[4], flags;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint8_t address[ADDRESS_SIZE];
        /* The kernel writes the numbers with a fixed width. NOLINTNEXTLINE */
        if (sscanf(line, "%8x%8x%8x%8x %*x %*x %*x %x %15s", &parts[0], &parts[1], &parts[2],
                   &parts[3], &flags, name) != 6)
            continue;
        for (size_t i = 0; i < 4; i++) {
            const uint32_t part = htonl(parts[i]);
            memcpy(address + 4 * i, &part, sizeof part);
        }
        add_place(address, (flags & NOT_YET) == 0 ? served_at(name, address) : NULL);
    }
    if (file != NULL)
        (void)fclose(file);
}

static void note_hardware(const struct ifaddrs *one)
{
    struct sockaddr_ll own;
    uint16_t parts[3];

    memcpy(&own, one->ifa_addr, sizeof own);
    memcpy(parts, own.sll_addr, sizeof parts);
    for (size_t i = 0; i < xdp_interface_count; i++)
        if (strcmp(interfaces[i].name, one->ifa_name) == 0)
            interfaces[i].hardware = xdp_hardware(parts[0], parts[1], parts[2]);
}

/* Lists the addresses that this machine has now. Returns false if there are too many. */
static bool list_places(void)
{
    struct ifaddrs *all = NULL;

    memset(&places, 0, sizeof places);
    served_count = place_count = 0;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
        if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_PACKET)
            note_hardware(one);
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
        if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET &&
            one->ifa_netmask != NULL && (one->ifa_flags & IFF_LOOPBACK) == 0)
            add_ipv4(one);
    freeifaddrs(all);
    add_ipv6();
    return place_count <= XDP_PLACES;
}

/* The program reads one list while the other one is written. */
static void tell_places(void)
{
    struct xdp_settings *settings = &program->bss->settings;
    const uint64_t other = 1 - settings->list;

    if (!list_places()) {
        static bool too_many_said;
        memset(&places, 0, sizeof places);
        if (!too_many_said)
            log_say("--xdp takes nothing: this machine has too many addresses");
        too_many_said = true;
    }
    if (memcmp(&places, &settings->lists[settings->list], sizeof places) == 0)
        return;
    memcpy(&settings->lists[other], &places, sizeof places);
    __atomic_store_n(&settings->list, other, __ATOMIC_RELEASE);
}

/* ---- Interfaces ------------------------------------------------------------------------- */

/* The kernel removed the program from an interface that is gone. */
static bool is_attached(const struct interface *interface)
{
    struct bpf_link_info info = {0};
    uint32_t size = sizeof info;

    return interface->link >= 0 && bpf_obj_get_info_by_fd(interface->link, &info, &size) == 0 &&
           info.xdp.ifindex == interface->index;
}

/* Attaches the program in the driver, or else before the rest of the kernel. Returns NULL, or why
 * that is impossible. */
static const char *attach(struct interface *interface, bool *natively)
{
    const int descriptor = bpf_program__fd(program->progs.heartbeats);
    static const uint32_t modes[] = {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
    int reason = 0;

    interface->index = if_nametoindex(interface->name);
    if (interface->index == 0)
        return "there is no such interface; ip link lists them";
    for (size_t i = 0; i < 2 && interface->link < 0 && reason != EBUSY; i++) {
        const struct bpf_link_create_opts wanted = {.sz = sizeof wanted, .flags = modes[i]};
        interface->link = bpf_link_create(descriptor, (int)interface->index, BPF_XDP, &wanted);
        reason = interface->link < 0 ? errno : 0;
        *natively = i == 0;
    }
    return interface->link >= 0                  ? NULL
           : reason == EBUSY || reason == EEXIST ? "another program, perhaps of another server, "
                                                   "takes its packets; ip link shows it"
                                                 : strerror(reason);
}

static void attend(struct interface *interface)
{
    bool natively;

    if (is_attached(interface))
        return;
    if (interface->link >= 0) {
        log_say("--xdp: %s is gone: waiting for it", interface->name);
        (void)close(interface->link);
        interface->link = -1;
    }
    if (attach(interface, &natively) == NULL)
        log_say("--xdp: %s is back%s", interface->name, natively ? "" : ", generically");
}

/* Runs four times a second. With short ticks, it runs more often: at least twice in the TABLE_EARLY
 * ticks before the time at which the program would stop. */
static void refresh(void)
{
    for (size_t i = 0; i < xdp_interface_count; i++)
        attend(&interfaces[i]);
    tell_places();
    program->bss->settings.offset = clock_offset();
    program->bss->settings.until = table_checked_until();
}

/* ---- Start ------------------------------------------------------------------------------ */

static int say_nothing(enum libbpf_print_level level, const char *format, va_list arguments)
{
    (void)level;
    (void)format;
    (void)arguments;
    return 0;
}

/* Loads the program into the kernel. Returns 0 or an error number. */
static int load(void)
{
    enum { LONG_TICK = 100000000 /* ns: then a jiffy, at most 10 ms, is little */ };

    (void)libbpf_set_print(say_nothing);
    program = xdp_program__open();
    if (program == NULL)
        return errno;
    const int reason = -xdp_program__load(program);
    if (reason != 0)
        return reason;
    struct xdp_settings *settings = &program->bss->settings;
    settings->port = htons(service.port);
    settings->tick = table_tick;
    settings->reuse = table_tick >= LONG_TICK;
    settings->network_count = (uint32_t)service.senders->count;
    for (size_t i = 0; i < service.senders->count; i++) {
        const struct address_network *one = &service.senders->list[i];
        memcpy(&settings->networks[i].address, one->address, ADDRESS_SIZE);
        memcpy(&settings->networks[i].mask, one->mask, ADDRESS_SIZE);
        settings->networks[i].ipv4 = one->ipv4;
    }
    return 0;
}

static const char *describe_failure(int reason)
{
    return reason == EPERM || reason == EACCES
               ? "the kernel does not allow it: it needs root, or CAP_BPF and CAP_NET_ADMIN"
           : reason == ENOSYS ? "this kernel has no BPF"
                              : strerror(reason);
}

static bool serves_something(const struct interface *interface)
{
    const struct xdp_settings *settings = &program->bss->settings;

    for (size_t i = 0; i < XDP_PLACES; i++)
        if (settings->lists[settings->list].places[i].interface == interface->index)
            return true;
    return false;
}

/* Until refresh() sets a time, the program takes nothing. */
static bool attach_all(bool natively[INTERFACES_MAX], const char **name, const char **wrong)
{
    for (size_t i = 0; i < xdp_interface_count; i++) {
        *name = interfaces[i].name;
        *wrong = attach(&interfaces[i], &natively[i]);
        if (*wrong != NULL)
            return false;
    }
    return true;
}

void xdp_finish(void)
{
    for (size_t i = 0; i < xdp_interface_count; i++)
        if (interfaces[i].link >= 0)
            (void)close(interfaces[i].link);
}

static void say_what_is_taken(const bool natively[INTERFACES_MAX])
{
    for (size_t i = 0; i < xdp_interface_count; i++) {
        if (options.log >= OPTIONS_LOG_NORMAL)
            log_say("heartbeats are taken in the kernel on %s%s", interfaces[i].name,
                    natively[i] ? "" : ", generically: its driver has no XDP");
        if (!serves_something(&interfaces[i]))
            log_say("--xdp %s takes nothing: it has no address that is served; --bind names them",
                    interfaces[i].name);
    }
}

bool xdp_begin(const struct xdp_service *wanted)
{
    enum { OFTEN = 250000000 /* ns */ };

    if (xdp_interface_count == 0)
        return true;
    service = *wanted;
    const int reason = load();
    if (reason != 0)
        return give_up(interfaces[0].name, describe_failure(reason));
    bool natively[INTERFACES_MAX] = {false};
    const char *name, *wrong;
    if (!attach_all(natively, &name, &wrong)) {
        xdp_finish();
        xdp_program__destroy(program);
        program = NULL;
        return give_up(name, wrong);
    }
    table_share(program->bss->entries);
    refresh();
    say_what_is_taken(natively);
    loop_define_task(LOOP_XDP, refresh,
                     table_tick * TABLE_EARLY / 2 < OFTEN ? table_tick * TABLE_EARLY / 2 : OFTEN);
    return true;
}

uint64_t xdp_new_heartbeats(void)
{
    static uint64_t before;
    uint64_t all = 0;

    for (size_t i = 0; program != NULL && i < XDP_CORES; i++)
        all += __atomic_load_n(&program->bss->cores[i].heartbeats, __ATOMIC_RELAXED);
    const uint64_t more = all - before;
    before = all;
    return more;
}

#endif

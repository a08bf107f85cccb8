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

#else

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "table.h"
#include "timing.h"
#include "xdp/shared.h"

#include "build/xdp_program.skel.h"

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

static void write_address(struct xdp_address *to, const uint8_t address[ADDRESS_SIZE])
{
    memcpy(to, address, ADDRESS_SIZE);
}

struct list {
    struct xdp_place places[XDP_PLACES];
    size_t count;
};

static void add_place(struct list *list, const uint8_t address[ADDRESS_SIZE],
                      const struct interface *interface)
{
    struct xdp_place *place = &list->places[list->count % XDP_PLACES];

    write_address(&place->address, address);
    if (interface != NULL) {
        place->hardware = interface->hardware;
        place->interface = interface->index;
    }
    place->used = 1;
    list->count++;
}

/* A socket would get packets for this address of the machine: then its interface is returned. */
static const struct interface *served_at(const char *name, const uint8_t address[ADDRESS_SIZE])
{
    for (size_t i = 0; i < xdp_interface_count; i++)
        if (strcmp(interfaces[i].name, name) == 0)
            return service.serves(address, interfaces[i].index) ? &interfaces[i] : NULL;
    return NULL;
}

/* Adds an IPv4 address. Those of the network itself and of broadcasts are no sources, either. */
static void add_ipv4(struct list *list, const struct ifaddrs *one)
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
            add_place(list, address, i == 0 ? served_at(one->ifa_name, address) : NULL);
    }
}

static void add_ipv6(struct list *list, const struct ifaddrs *one)
{
    struct sockaddr_in6 own;

    memcpy(&own, one->ifa_addr, sizeof own);
    add_place(list, own.sin6_addr.s6_addr, served_at(one->ifa_name, own.sin6_addr.s6_addr));
}

static void note_hardware(const struct ifaddrs *one)
{
    struct sockaddr_ll own;

    memcpy(&own, one->ifa_addr, sizeof own);
    for (size_t i = 0; i < xdp_interface_count; i++)
        if (strcmp(interfaces[i].name, one->ifa_name) == 0)
            memcpy(&interfaces[i].hardware, own.sll_addr, 6);
}

/* Lists the addresses that this machine has now. Returns false if there are too many. */
static bool list_places(struct list *list)
{
    struct ifaddrs *all = NULL;

    memset(list, 0, sizeof *list);
    if (getifaddrs(&all) != 0)
        return false;
    for (int family = 0; family < 3; family++)
        for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
            const int here = one->ifa_addr == NULL ? AF_UNSPEC : one->ifa_addr->sa_family;
            if (family == 0 && here == AF_PACKET)
                note_hardware(one);
            else if (family == 1 && here == AF_INET && one->ifa_netmask != NULL)
                add_ipv4(list, one);
            else if (family == 2 && here == AF_INET6)
                add_ipv6(list, one);
        }
    freeifaddrs(all);
    return list->count <= XDP_PLACES;
}

/* The program reads one list while the other one is written. */
static void tell_places(void)
{
    static bool too_many_said;
    struct xdp_settings *settings = &program->bss->settings;
    const uint64_t other = 1 - settings->list;
    struct list list;

    if (!list_places(&list)) {
        memset(&list, 0, sizeof list);
        if (!too_many_said)
            log_say("--xdp takes nothing: this machine has too many addresses");
        too_many_said = true;
    }
    if (memcmp(list.places, settings->places[1 - other], sizeof list.places) == 0)
        return;
    memcpy(settings->places[other], list.places, sizeof list.places);
    __atomic_store_n(&settings->list, other, __ATOMIC_RELEASE);
}

/* ---- Interfaces ------------------------------------------------------------------------- */

/* The kernel removed the program from an interface that is gone. */
static bool is_attached(const struct interface *interface)
{
    struct bpf_link_info info = {0};
    uint32_t size = sizeof info;

    return interface->link >= 0 &&
           bpf_obj_get_info_by_fd(interface->link, &info, &size) == 0 &&
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
        LIBBPF_OPTS(bpf_link_create_opts, wanted, .flags = modes[i]);
        interface->link = bpf_link_create(descriptor, (int)interface->index, BPF_XDP, &wanted);
        reason = interface->link < 0 ? errno : 0;
        *natively = i == 0;
    }
    return interface->link >= 0                     ? NULL
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

/* Ten times in the time after which the program stops, or four times a second. */
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
    program->rodata->port = htons(service.port);
    program->rodata->tick = table_tick;
    program->rodata->reuse = table_tick >= LONG_TICK;
    program->rodata->network_count = (uint32_t)service.senders->count;
    for (size_t i = 0; i < service.senders->count; i++) {
        const struct address_network *one = &service.senders->list[i];
        write_address(&program->rodata->networks[i].address, one->address);
        write_address(&program->rodata->networks[i].mask, one->mask);
    }
    return -xdp_program__load(program);
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
        if (settings->places[settings->list][i].interface == interface->index)
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

static void detach_all(void)
{
    for (size_t i = 0; i < xdp_interface_count; i++)
        if (interfaces[i].link >= 0)
            (void)close(interfaces[i].link);
    xdp_program__destroy(program);
    program = NULL;
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
    bool natively[INTERFACES_MAX];
    const char *name, *wrong;
    if (!attach_all(natively, &name, &wrong)) {
        detach_all();
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
    uint64_t now = 0;

    for (size_t i = 0; program != NULL && i < XDP_CORES; i++)
        now += __atomic_load_n(&program->bss->cores[i].heartbeats, __ATOMIC_RELAXED);
    const uint64_t more = now - before;
    before = now;
    return more;
}

#endif

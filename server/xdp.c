/* Heartbeats that the kernel takes for udpserver; see xdp.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for getifaddrs */
#include "xdp.h"

#include "log.h"
#include "options.h"

enum { INTERFACES_MAX = 8 };
#define NO_ETHERNET UINT64_MAX /* no packet has such an address */

static struct interface {
    const char *name;
    int link;          /* the descriptor that holds the program there; -1: the interface is gone */
    unsigned index;    /* its number now; 0: it is gone */
    uint64_t hardware; /* its Ethernet address, or NO_ETHERNET */
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

void xdp_read_again(void)
{
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
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "sockets.h"
#include "table.h"
#include "timing.h"
#include "xdp/shared.h"

#include <xdp_program.skel.h>

/* The program can keep as many networks as the options. Else this is an error of the compiler. */
typedef char networks_fit[(int)XDP_NETWORKS >= (int)ADDRESS_NETWORKS ? 1 : -1];

static struct xdp_program *program;
static struct xdp_service service;

/* ---- What the program has to know ------------------------------------------------------- */

static uint64_t tai_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_TAI, &now);
    return (uint64_t)now.tv_sec * TIMING_SECOND + (uint64_t)now.tv_nsec;
}

/* Programs in the kernel cannot read Unix time, but the time of the atomic clock (TAI). It is
 * whole seconds ahead: 0, or 37 if somebody has told the kernel. When the clock is set, both move
 * together, so what this returns does not change. It is measured again if something has come
 * between the two clocks. */
static uint64_t clock_offset(void)
{
    uint64_t before, unix_ns;

    do {
        before = tai_ns();
        unix_ns = timing_unix_ns();
    } while (tai_ns() - before >= TIMING_SECOND / 4);
    const uint64_t ahead = before - unix_ns + TIMING_SECOND / 2;
    return -(ahead - ahead % TIMING_SECOND);
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
    const uint8_t last = xdp_last_byte(&place->address);
    places.last_bytes[last / 64] |= UINT64_C(1) << last % 64;
}

/* Returns the interface if it is one of --xdp, or NULL. It may have several names; eth0:1 is a
 * name of an address of eth0. */
static struct interface *find_interface(const char *name)
{
    const unsigned index = if_nametoindex(name);

    for (size_t i = 0; index != 0 && i < xdp_interface_count; i++)
        if (interfaces[i].index == index)
            return &interfaces[i];
    return NULL;
}

/* Returns the interface if packets for this address of it can be taken: if a socket gets them. */
static const struct interface *served_at(const char *name, const uint8_t address[ADDRESS_SIZE])
{
    const struct interface *interface = find_interface(name);

    return interface != NULL && interface->hardware != NO_ETHERNET &&
                   service.serves(address, interface->index)
               ? interface
               : NULL;
}

static void add_ipv4(const struct ifaddrs *one)
{
    uint8_t address[ADDRESS_SIZE];
    struct sockaddr_in own;

    memcpy(&own, one->ifa_addr, sizeof own);
    memcpy(address, address_mapped, ADDRESS_MAPPED);
    memcpy(address + ADDRESS_MAPPED, &own.sin_addr, sizeof own.sin_addr);
    add_place(address, served_at(one->ifa_name, address));
}

/* Adds the IPv6 addresses. While the machine asks its neighbours if an address is free, the kernel
 * refuses packets for it. getifaddrs() does not say that, and this file does. Without the file, no
 * IPv6 address is served. /proc/net may be hidden from services, but not this. */
static void add_ipv6(void)
{
    enum { NOT_YET = IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_OPTIMISTIC, LINE = 128 };
    FILE *file = fopen("/proc/self/net/if_inet6", "re");
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
    struct interface *interface = find_interface(one->ifa_name);
    if (interface != NULL)
        interface->hardware = own.sll_hatype == ARPHRD_ETHER || own.sll_hatype == ARPHRD_LOOPBACK
                                  ? xdp_hardware(parts[0], parts[1], parts[2])
                                  : NO_ETHERNET;
}

static void list_networks(void)
{
    places.network_count = service.senders->count;
    for (size_t i = 0; i < service.senders->count; i++) {
        const struct address_network *one = &service.senders->list[i];
        memcpy(&places.networks[i].address, one->address, ADDRESS_SIZE);
        memcpy(&places.networks[i].mask, one->mask, ADDRESS_SIZE);
        places.networks[i].ipv4 = one->ipv4;
    }
}

/* Lists who may send heartbeats, and the addresses that this machine has now. Returns false if
 * there are too many. */
static bool list_places(void)
{
    struct ifaddrs *all = NULL;

    memset(&places, 0, sizeof places);
    list_networks();
    served_count = place_count = 0;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
        if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_PACKET)
            note_hardware(one);
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
        if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET)
            add_ipv4(one);
    freeifaddrs(all);
    add_ipv6();
    return place_count <= XDP_PLACES;
}

static void tell_places(void)
{
    if (!list_places()) {
        static bool too_many_said;
        memset(&places, 0, sizeof places);
        if (!too_many_said)
            log_say("--xdp takes nothing: this machine has too many addresses");
        too_many_said = true;
    }
    xdp_publish(&program->bss->settings, &places);
}

void xdp_read_again(void)
{
    if (program != NULL)
        tell_places();
}

/* ---- Interfaces ------------------------------------------------------------------------- */

/* The kernel removed the program from an interface that is gone. One that was renamed, or moved to
 * another network namespace, still has the program, but is not the one of that name. */
static bool is_attached(const struct interface *interface, bool changed)
{
    struct bpf_link_info info = {0};
    uint32_t size = sizeof info;

    return interface->link >= 0 && bpf_obj_get_info_by_fd(interface->link, &info, &size) == 0 &&
           info.xdp.ifindex == interface->index &&
           (!changed || if_nametoindex(interface->name) == interface->index);
}

/* Attaches the program in the driver, or else before the rest of the kernel. Returns NULL, or why
 * that is impossible. */
static const char *attach(struct interface *interface, bool *natively)
{
    const int descriptor = bpf_program__fd(program->progs.heartbeats);
    static const uint32_t modes[] = {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
    int reason = 0;

    interface->index = if_nametoindex(interface->name);
    interface->hardware = NO_ETHERNET;
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

/* Looks after an interface that may have `changed`. Returns whether the program was removed from
 * it, or attached to it. */
static bool attend(struct interface *interface, bool changed)
{
    bool natively;

    if (is_attached(interface, changed))
        return false;
    if (interface->link >= 0) {
        log_say("--xdp: %s is gone: waiting for it", interface->name);
        (void)close(interface->link);
        interface->link = -1;
        interface->index = 0;
    }
    if (attach(interface, &natively) == NULL)
        log_say("--xdp: %s is back%s", interface->name, natively ? "" : ", generically");
    return true;
}

static int changes = -1; /* a socket: the kernel tells what changes of interfaces and addresses */

/* If that is impossible, has_changed() always says yes. */
static void open_changes(void)
{
    struct sockaddr_nl wanted = {.nl_family = AF_NETLINK,
                                 .nl_groups =
                                     RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};

    changes = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (changes >= 0 && bind(changes, (const struct sockaddr *)&wanted, sizeof wanted) != 0) {
        (void)close(changes);
        changes = -1;
    }
}

/* Has something changed since the last call? What it was, list_places() finds out. ENOBUFS means
 * that there was too much to tell. */
static bool has_changed(void)
{
    bool changed = false;
    char start;

    while (recv(changes, &start, sizeof start, 0) >= 0 || errno == ENOBUFS)
        changed = true;
    return changed || errno != EAGAIN;
}

/* Runs four times a second. With short ticks, it runs more often: at least twice in the TABLE_EARLY
 * ticks before the time at which the program would stop. */
static void refresh(void)
{
    const bool changed = has_changed();
    bool moved = false;

    for (size_t i = 0; i < xdp_interface_count; i++)
        moved |= attend(&interfaces[i], changed);
    if (changed || moved)
        tell_places();
    program->bss->settings.offset = clock_offset();
    /* If the program had stopped, older heartbeats wait in the sockets. They must not be taken
     * after those that the program takes from now on. */
    if (timing_unix_ns() >= program->bss->settings.until)
        sockets_take_waiting();
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
    return 0;
}

static const char *describe_failure(int reason)
{
    return reason == EPERM || reason == EACCES
               ? "the kernel does not allow it: it needs root, or CAP_BPF, CAP_NET_ADMIN and "
                 "CAP_PERFMON"
           : reason == ENOSYS ? "this kernel has no BPF"
           : reason == EINVAL ? "this kernel is too old: it must be Linux 6.1 or later"
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

/* Does the interface take VLAN tags off, so that the program does not see them? */
static bool hides_vlan_tags(const struct interface *interface)
{
    struct ethtool_value flags = {.cmd = ETHTOOL_GFLAGS};
    struct ifreq request = {.ifr_data = (void *)&flags};
    const int any_socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (any_socket < 0)
        return false;
    if (if_indextoname(interface->index, request.ifr_name) == NULL ||
        ioctl(any_socket, SIOCETHTOOL, &request) != 0)
        flags.data = 0;
    (void)close(any_socket);
    return (flags.data & ETH_FLAG_RXVLAN) != 0;
}

static void say_what_is_taken(const bool natively[INTERFACES_MAX])
{
    for (size_t i = 0; i < xdp_interface_count; i++) {
        if (options.log >= OPTIONS_LOG_NORMAL)
            log_say("heartbeats are taken in the kernel on %s%s", interfaces[i].name,
                    natively[i] ? "" : ", generically: its driver does not take the program");
        if (!serves_something(&interfaces[i]))
            log_say("--xdp %s takes nothing: it %s", interfaces[i].name,
                    interfaces[i].hardware == NO_ETHERNET
                        ? "is no Ethernet"
                        : "has no address that is served; --bind names them");
        else if (options.log >= OPTIONS_LOG_NORMAL && hides_vlan_tags(&interfaces[i]))
            log_say("--xdp %.40s: heartbeats of other VLANs count, too, as the interface takes "
                    "their tags off; ethtool -K %.40s rxvlan off keeps them",
                    interfaces[i].name, interfaces[i].name);
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
    open_changes();
    tell_places();
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

/* Takes heartbeats in the kernel, for udpserver --xdp; see server/xdp.h.
 * SPDX-License-Identifier: MIT
 *
 * The kernel runs this for each packet that an interface receives, before its own network code sees
 * the packet. dumpulse.c is included as it is: it is the file that firmware compiles.
 *
 * It takes a packet only if udpserver's socket would get it and would count it as a heartbeat.
 * Everything else goes up (XDP_PASS): then the kernel and udpserver decide, as they do without this
 * program. So requests go up, and all that udpserver refuses. These go up, too, because it is not
 * certain here what the kernel does with them:
 *   - frames with a VLAN tag: they belong to another interface
 *   - IPv4 options, which the kernel may refuse, and IPv6 extension headers
 *   - fragments: only the kernel puts them together
 *   - lengths that do not agree with each other
 *   - wrong UDP checksums. On a veth, a right packet may have one: there, the kernel leaves the
 *     checksum to hardware that does not exist. IPv4 allows packets without a checksum: these are
 *     taken
 *   - broadcast and multicast: the kernel knows who has joined which group
 *   - sources that the kernel refuses: 0.0.0.0/8, 127.0.0.0/8, multicast, this machine itself
 *   - addresses that the machine has had for less than a quarter of a second
 *   - packets that come while udpserver has not checked the ages of the entries, as it hangs
 *
 * Packets come in on several cores at once. An entry is 4 aligned bytes, and is written in one
 * store: so nobody sees half of an entry, and the last store counts. All else that is written here
 * belongs to one core. There, the program never interrupts itself: the kernel runs it with soft
 * interrupts blocked.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* The kernel's verifier accepts the library's functions only as a part of the program. */
#define INLINE static inline __attribute__((always_inline))
struct dumpulse;
INLINE uint16_t dumpulse_get_timestamp(void);
INLINE void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length);
INLINE uint8_t dumpulse_process_packet(struct dumpulse *agent, const uint8_t *packet, size_t length,
                                       void *context);
#include "dumpulse.c"

#include "server/xdp/shared.h"

char LICENSE[] SEC("license") = "MIT";

uint32_t entries[DUMPULSE_VARIABLES]; /* the table, as in a report */
struct xdp_settings settings;
struct xdp_core cores[XDP_CORES];

/* ---- The hooks -------------------------------------------------------------------------- */

/* take_heartbeat() has just made the stamp on this core. */
INLINE uint16_t dumpulse_get_timestamp(void)
{
    return (uint16_t)cores[bpf_get_smp_processor_id() % XDP_CORES].stamp;
}

INLINE void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; /* never called: requests go up */
    (void)packet;
    (void)length;
}

/* ---- Packets ---------------------------------------------------------------------------- */

struct ethernet {
    uint16_t to[3], from[3], kind;
};

struct packet {
    struct xdp_address from, to;
    uint64_t hardware; /* that it was sent to */
    const void *heartbeat;
};

/* The Internet checksum: is this sum, of words of 32 bits, that of a right packet? Then it is a
 * multiple of 65535. It is never 0, because some of the words are not.
 * A multiple of 65535, and no other number, becomes at most 2^64 / 65535 when it is multiplied by
 * the inverse of 65535, modulo 2^64. That takes a third of the time of folding the sum. */
INLINE bool is_right(uint64_t sum)
{
    const uint64_t inverse = 0xFFFEFFFEFFFEFFFF;

    return sum * inverse <= UINT64_MAX / 0xFFFF;
}

/* Adds four words. Words of a packet are at multiples of 4 bytes, plus 2. Linux starts packets so
 * that machines can load these which load only from multiples of 4. */
INLINE uint64_t four_of(const void *bytes)
{
    const uint32_t *words = bytes;

    return (uint64_t)words[0] + words[1] + words[2] + words[3];
}

/* Is it for our port, 8 bytes long, and not damaged? `addresses` is their sum. The sum of a packet
 * without a checksum is not looked at. */
INLINE bool read_udp(struct packet *packet, const struct udphdr *udp, uint64_t addresses,
                     bool may_have_none)
{
    const uint16_t length = bpf_htons(sizeof *udp + DUMPULSE_PACKET_SIZE);
    const uint64_t pseudo = addresses + length + bpf_htons(IPPROTO_UDP);

    packet->heartbeat = udp + 1;
    return udp->dest == settings.port && udp->len == length &&
           ((may_have_none && udp->check == 0) ||
            (udp->check != 0 && is_right(pseudo + four_of(udp))));
}

INLINE bool read_ipv4(struct packet *packet, const struct iphdr *ip, const void *end)
{
    const struct udphdr *udp = (const struct udphdr *)(ip + 1);
    const uint16_t fragment = bpf_htons(0x3FFF); /* "more fragments", and the offset */

    if ((const uint8_t *)(udp + 1) + DUMPULSE_PACKET_SIZE > (const uint8_t *)end)
        return false;
    if (ip->version != 4 || ip->ihl != 5 || (ip->frag_off & fragment) != 0 ||
        ip->protocol != IPPROTO_UDP ||
        ip->tot_len != bpf_htons(sizeof *ip + sizeof *udp + DUMPULSE_PACKET_SIZE))
        return false;
    const uint32_t first = bpf_ntohl(ip->saddr) >> 24;
    if (first == 0 || first == 127 || first >= 224 || !is_right(four_of(ip) + ip->daddr))
        return false;
    const uint32_t mapped = bpf_htonl(0xFFFF);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    packet->from = (struct xdp_address){{0, (uint64_t)ip->saddr << 32 | mapped}};
    packet->to = (struct xdp_address){{0, (uint64_t)ip->daddr << 32 | mapped}};
#else
    packet->from = (struct xdp_address){{0, (uint64_t)mapped << 32 | ip->saddr}};
    packet->to = (struct xdp_address){{0, (uint64_t)mapped << 32 | ip->daddr}};
#endif
    return read_udp(packet, udp, (uint64_t)ip->saddr + ip->daddr, true);
}

/* Is it global, unique local (fc00::/7) or link-local? Among the others are IPv4 addresses that are
 * written as IPv6 ones: the kernel refuses these, and the list of places must not mix them up. */
INLINE bool is_ordinary(const struct in6_addr *address)
{
    const uint32_t first = bpf_ntohl(address->in6_u.u6_addr32[0]) >> 16;

    return (first & 0xE000) == 0x2000 || (first & 0xFE00) == 0xFC00 || (first & 0xFFC0) == 0xFE80;
}

INLINE bool read_ipv6(struct packet *packet, const struct ipv6hdr *ip, const void *end)
{
    const struct udphdr *udp = (const struct udphdr *)(ip + 1);

    if ((const uint8_t *)(udp + 1) + DUMPULSE_PACKET_SIZE > (const uint8_t *)end)
        return false;
    if (ip->version != 6 || ip->nexthdr != IPPROTO_UDP ||
        ip->payload_len != bpf_htons(sizeof *udp + DUMPULSE_PACKET_SIZE) ||
        !is_ordinary(&ip->saddr) || !is_ordinary(&ip->daddr))
        return false;
    __builtin_memcpy(&packet->from, &ip->saddr, sizeof packet->from);
    __builtin_memcpy(&packet->to, &ip->daddr, sizeof packet->to);
    return read_udp(packet, udp, four_of(&ip->saddr) + four_of(&ip->daddr), false);
}

INLINE bool is_same(const struct xdp_address *one, const struct xdp_address *other)
{
    return one->halves[1] == other->halves[1] && one->halves[0] == other->halves[0];
}

/* The places that are served come first. */
INLINE bool is_served(const struct xdp_list *list, const struct packet *packet, uint32_t interface)
{
    for (unsigned i = 0; i < XDP_PLACES; i++) {
        const struct xdp_place *place = &list->places[i];
        if (place->interface == 0)
            break;
        if (is_same(&place->address, &packet->to) && place->interface == interface &&
            place->hardware == packet->hardware)
            return true;
    }
    return false;
}

INLINE bool is_from_here(const struct xdp_list *list, const struct xdp_address *from)
{
    const uint8_t last = xdp_last_byte(from);

    if ((list->last_bytes[last / 64] >> (last % 64) & 1) == 0)
        return false; /* as for most sources */
    for (unsigned i = 0; i < XDP_PLACES; i++)
        if (is_same(&list->places[i].address, from))
            return true;
    return false;
}

INLINE bool may_send_heartbeats(const struct xdp_list *list, const struct xdp_address *from,
                                bool ipv4)
{
    for (unsigned i = 0; i < XDP_NETWORKS && i < list->network_count; i++) {
        const struct xdp_network *one = &list->networks[i];
        if ((((from->halves[0] ^ one->address.halves[0]) & one->mask.halves[0]) |
             ((from->halves[1] ^ one->address.halves[1]) & one->mask.halves[1])) == 0 &&
            one->ipv4 == ipv4)
            return true;
    }
    return list->network_count == 0;
}

/* Makes the stamp, unless that of this jiffy can be used again: reading the clock takes longer than
 * all the rest. False: udpserver has to check the ages of the entries first. */
INLINE bool make_stamp(struct xdp_core *core)
{
    const uint64_t jiffy = bpf_jiffies64();

    if (jiffy - core->jiffy < settings.reuse)
        return true;
    const uint64_t now = bpf_ktime_get_tai_ns() + settings.offset;
    if (now >= settings.until)
        return false;
    core->stamp = (uint32_t)(now / settings.tick);
    core->jiffy = jiffy;
    return true;
}

/* False: it is no heartbeat, or it cannot be taken here. The bytes are copied, so that the compiler
 * sees that nothing changes them: then what the library does with requests is left out. */
INLINE bool take_heartbeat(const void *packet)
{
    const uint64_t number = bpf_get_smp_processor_id(); /* 64 bits: Linux 6.1 follows these only */
    const uint32_t *words = packet;
    const uint32_t copy[2] = {words[0], words[1]};
    const uint8_t *bytes = (const uint8_t *)copy;

    if (number >= XDP_CORES || bytes[DUMPULSE_MAGIC_AT_] != DUMPULSE_MAGIC)
        return false;
    struct xdp_core *core = &cores[number];
    if (!make_stamp(core) || dumpulse_process_packet(&core->agent, bytes, DUMPULSE_PACKET_SIZE,
                                                     NULL) != DUMPULSE_HEARTBEAT)
        return false;
    const uint32_t *made = (const void *)(core->agent.report + 4);
    const uint32_t variable = bytes[DUMPULSE_VARIABLE_AT_] % DUMPULSE_VARIABLES;
    *(volatile uint32_t *)&entries[variable] = made[variable];
    core->heartbeats++;
    return true;
}

/* Packets may be in several pieces: without ".frags", many drivers would not take the program for
 * an interface with a large MTU. What is read here is in the first piece, or the packet goes up. */
SEC("xdp.frags")
int heartbeats(struct xdp_md *context)
{
    const void *end = (const void *)(long)context->data_end;
    const struct ethernet *ethernet = (const void *)(long)context->data;
    struct packet packet = {0};

    if ((const void *)(ethernet + 1) > end)
        return XDP_PASS;
    const bool is_read = ethernet->kind == bpf_htons(ETH_P_IP)
                             ? read_ipv4(&packet, (const void *)(ethernet + 1), end)
                         : ethernet->kind == bpf_htons(ETH_P_IPV6)
                             ? read_ipv6(&packet, (const void *)(ethernet + 1), end)
                             : false;
    if (!is_read)
        return XDP_PASS;
    packet.hardware = xdp_hardware(ethernet->to[0], ethernet->to[1], ethernet->to[2]);
    const struct xdp_list *list = &settings.lists[settings.list & 1];
    return is_served(list, &packet, context->ingress_ifindex) &&
                   !is_from_here(list, &packet.from) &&
                   may_send_heartbeats(list, &packet.from, ethernet->kind == bpf_htons(ETH_P_IP)) &&
                   take_heartbeat(packet.heartbeat)
               ? XDP_DROP
               : XDP_PASS;
}

/* Dumpulse: a small heartbeat monitor.   SPDX-License-Identifier: MIT
 *
 * Microcontrollers send heartbeats of 8 bytes over a fast local network. One of
 * them, the agent, keeps the last heartbeat of each of 64 variables, and answers
 * a request of 8 bytes with one report of 260 bytes. SPEC.md, in the project's
 * repository, has every byte of the packets.
 *
 * WHO NEEDS WHAT
 *   An agent compiles dumpulse.c, and has two hooks: a clock and a way to send.
 *   A node that only sends, and a reader of reports, include this header and
 *   compile nothing else. They need no hook.
 *   The compiler must be for C99 or later, or C++, with an int of 16 bits, or of
 *   32 and more. On an AVR with more than 64 KB of flash, the linker must leave
 *   constants in the first 64 KB, as it does by default.
 *
 * TRUST
 *   `packet` points to `length` bytes that came from the network. They are safe,
 *   whatever their values and their length. Everything else comes from the firmware
 *   and is trusted: pointers are valid and not null, `agent` points to a whole
 *   dumpulse that starts out as zeros, and a packet does not lie inside the agent.
 *   `context` is only passed on. A variable out of range is safe everywhere.
 *
 * LIFETIME
 *   The firmware owns every object. The library allocates nothing and keeps no
 *   pointer: it uses `packet` and `context` until the call returns. The bytes that
 *   the send hook gets are the agent itself. The hook must send or copy them before
 *   it returns, because the next heartbeat changes them.
 *
 * INTERRUPTS AND THREADS
 *   There is no lock and no static data: agents share nothing. Make only one call at
 *   a time for one agent: call it from the main loop only, or from one interrupt only,
 *   or mask that interrupt around the call. A hook must not call back into its agent.
 *   The functions for nodes and readers touch only what they are given, and may be
 *   called anywhere.
 *   If an interrupt counts the clock, an 8-bit processor may read one byte of it before
 *   the count and the other after it: mask that interrupt in the clock hook.
 *   From a UART's receive interrupt, a request must be done before the UART is full. An
 *   AVR's holds two bytes, so at 16 MHz it loses some above 57,600 baud.
 *   Two calls may meet by mistake: an interrupt records a heartbeat while a report is
 *   summed or sent, or DMA still reads after the hook returned. Then nothing breaks
 *   in memory, but a report may have an entry that is half old and half new. Its
 *   checksum is nearly always wrong, and a reader polls again. But if the whole report
 *   is made while a heartbeat is being recorded, the checksum of the report is right,
 *   and no reader can detect that half of an entry is old.
 *
 * TIME
 *   A timestamp has 16 bits and wraps around: 0 must follow 65535, and nothing else
 *   may. Arduino's millis() / 1000 also starts again at 0 after 49.7 days, in between,
 *   and then all nodes seem to be dead. You choose the unit of the clock. Then
 *   dumpulse_age(now, timestamp) is right up to 65535 units. (now - timestamp alone is
 *   an int, and negative after a wrap: a dead node looks alive.) After that it is too
 *   small by a multiple of 65536. So choose a unit of which 65535 are longer
 *   than a dead node may go undetected: with seconds, that is 18 hours. The same unit
 *   serves dumpulse_watch.h. To detect a silence within 10 ms, the unit must be 10 ms.
 *   Then readers must poll every few minutes, because ages wrap around after 655 s.
 *   A reader learns the agent's "now" from a variable that the agent records for
 *   itself, best just before each packet it processes.
 *   Let nodes send several times within the age that you call dead: a heartbeat may
 *   get lost.
 *
 * WORK
 *   Every loop has a fixed bound. A heartbeat sums 4 bytes, calls the clock hook and
 *   writes 4 bytes. A request sums 256 bytes, writes 4 and calls the send hook.
 *   Checking a report sums 256 bytes. If an int has 16 bits, a report's sum takes up
 *   to 128 additions more, depending on the table. Otherwise it always takes the same
 *   number of steps. Each function below says which of these it does. performance.md,
 *   in the project's repository, says what they cost.
 *   With link-time optimisation a compiler may share the code of the sum between the
 *   agent and dumpulse_make_heartbeat or dumpulse_check_report in the same image. The
 *   image gets smaller, and a heartbeat takes longer: by avr-gcc 5.4 on an ATmega328P,
 *   224 cycles and 18 bytes of stack instead of 131 and 6.
 *
 * ZEROS
 *   Four zero bytes are a variable that was never set. A heartbeat of value 0
 *   from sender 0 at time 0 looks the same. So let no node be sender 0. If you set an
 *   agent to zeros again, it forgets everything. This is never needed.
 *
 * ATTACKERS
 *   There is no authentication and no secrecy. Anyone who can send on the network
 *   can set any variable to any value in the name of any sender, replay old heartbeats,
 *   ask for reports (32.5 bytes out for each byte in) and forge reports. The checksum
 *   stops accidents only. No packet can write outside the agent, change more than one
 *   entry of it, or make a call exceed the bounds above. Put the network, or the gateway
 *   to it, behind something that authenticates.
 */
#ifndef DUMPULSE_H
#define DUMPULSE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DUMPULSE_VERSION "1.0.0-rc1"   /* The library's version; SPEC.md has the protocol's. */
#define DUMPULSE_VERSION_NUMBER 10000L /* for #if: 1.2.3, and -dev before it, is 10203 */

#define DUMPULSE_MAGIC 0xF1U      /* the fifth byte of every heartbeat */
#define DUMPULSE_VARIABLES 64U    /* numbered from 0 */
#define DUMPULSE_PACKET_SIZE 8U   /* bytes of a heartbeat, and of a request */
#define DUMPULSE_REPORT_SIZE 260U /* 4 bytes of checksum, 64 entries of 4 */

/* The request: const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST; */
/* clang-format off */
#define DUMPULSE_REQUEST {'A', 'r', 'e', 'y', 'o', 'u', 'O', 'K'}
/* clang-format on */

/* An agent's whole state, which is the report as it is sent. Starts as zeros. */
typedef struct dumpulse {
    uint8_t report[DUMPULSE_REPORT_SIZE];
} dumpulse;

/* What became of a packet. */
enum {
    DUMPULSE_REFUSED = 0,   /* not for us or damaged; nothing has changed */
    DUMPULSE_HEARTBEAT = 1, /* one entry has been written */
    DUMPULSE_REPORT = 2     /* the checksum has been written, the send hook called */
};
typedef uint8_t dumpulse_result;

/* Hook, written by the user: the time now, in any unit. Called once for each
 * heartbeat that is recorded, and never otherwise. At that moment the entry has the new
 * sender and value, and still the old time. */
uint16_t dumpulse_get_timestamp(void);

/* Hook, written by the user: sends the report to the reader that `context` stands for.
 * Called once for each request, and never otherwise, with the agent's own bytes
 * and DUMPULSE_REPORT_SIZE. It may drop the report if the transport fails, or to limit
 * how many are sent: the reader polls again. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length);

/* Processes a packet from the network. If it is a request, the send hook gets the
 * context.
 * Work: 8 bytes compared at most; then the work of a heartbeat or of a request. */
dumpulse_result dumpulse_process_packet(dumpulse *agent, const uint8_t *packet, size_t length,
                                        void *context);

/* Records a variable of the agent's own, as if its heartbeat had come in.
 * Returns DUMPULSE_REFUSED if and only if `variable` is out of range. Then nothing has
 * changed. Work: the clock hook, and 4 bytes written. */
static inline dumpulse_result dumpulse_record(dumpulse *agent, uint8_t variable, uint8_t sender,
                                              uint8_t value);

/* For a node: builds the heartbeat to send. A variable out of range gives a
 * packet that every agent rejects. Work: 4 bytes summed, 8 written. */
static inline void dumpulse_make_heartbeat(uint8_t packet[DUMPULSE_PACKET_SIZE], uint8_t variable,
                                           uint8_t sender, uint8_t value);

/* For a reader: is this a report, whole and undamaged? Any bytes of any length are
 * safe. Work: 256 bytes summed at most. */
static inline bool dumpulse_check_report(const uint8_t *report, size_t length);

/* For a reader: one entry of a report that has been checked. A variable out of
 * range reads as one that was never set. The agent may read its own `report` like
 * this at any time, but the checksum in it is old. Work: 4 bytes read. */
typedef struct dumpulse_entry {
    uint16_t timestamp;
    uint8_t sender;
    uint8_t value;
} dumpulse_entry;

static inline dumpulse_entry dumpulse_read_entry(const uint8_t report[DUMPULSE_REPORT_SIZE],
                                                 uint8_t variable);

/* Has the variable of this entry ever been set? ZEROS above has the exception. Work: 4
 * bytes compared at most. */
static inline bool dumpulse_was_heard(dumpulse_entry entry);

/* How long ago is a timestamp, in the unit of the clock? TIME above has the limit. Work:
 * a subtraction. */
static inline uint16_t dumpulse_age(uint16_t now, uint16_t timestamp);

/* Which variable has a packet set, for which dumpulse_process_packet has just returned
 * DUMPULSE_HEARTBEAT? Work: a byte read. */
static inline uint8_t dumpulse_changed_variable(const uint8_t packet[DUMPULSE_PACKET_SIZE]);

/* ------------------------------------------------------------------------------
 * The manual ends here. What follows is the code of the inline functions; names
 * that end in an underscore are not for users. Comments that begin with an at sign
 * are for a prover; what they name is defined in proof/spec.h, in the project's
 * repository.
 */

/* Where things lie, in bytes. The checksum comes first, in a packet and in a report.
 * A report's entry is like the end of a packet: counted from 4 bytes before the entry,
 * its sender and value are where a packet has them. */
enum {
    DUMPULSE_SUM_SIZE_ = 4,
    DUMPULSE_MAGIC_AT_ = 4,
    DUMPULSE_VARIABLE_AT_ = 5,
    DUMPULSE_TIME_AT_ = 4,
    DUMPULSE_SENDER_AT_ = 6,
    DUMPULSE_VALUE_AT_ = 7,
    DUMPULSE_ENTRY_SIZE_ = 4,
    DUMPULSE_PACKET_LAST_ = 8 - 4 - 1,  /* the last byte under a checksum, */
    DUMPULSE_REPORT_LAST_ = 260 - 4 - 1 /* counted from the first one */
};

#define DUMPULSE_NARROW_ (UINT_MAX == 0xFFFFU) /* is an int 16 bits wide? */
/* This does not compile with an int of 8 bits, as by avr-gcc -mint8, or of 24. */
typedef char dumpulse_needs_an_int_of_16_bits_or_of_32_and_more_
    [(UINT_MAX == 0xFFFFU || UINT_MAX >= 0xFFFFFFFFU) ? 1 : -1];

/* Does the processor have an instruction that divides? If not, `%` is a routine of 300 bytes. */
#if defined __ARM_FEATURE_IDIV || defined __riscv_div || defined __i386__ || defined __x86_64__ || \
    defined __powerpc__
#define DUMPULSE_DIVIDES_ true
#else
#define DUMPULSE_DIVIDES_ false
#endif

/* avr-gcc 8 and later count the turns of a loop and add the count to an address. An instruction of
 * no bytes, which might change the pointer, makes them step it: 24 bytes and 29 cycles less. */
#if defined __AVR__ && defined __GNUC__ && __GNUC__ >= 8 /* clang says 4 */
#define DUMPULSE_STEPPED_(pointer) __asm__("" : "+x"(pointer))
#else
#define DUMPULSE_STEPPED_(pointer) ((void)0)
#endif

static inline unsigned dumpulse_read16_(const uint8_t *bytes)
{
    return bytes[0] * 256U + bytes[1];
}

static inline void dumpulse_write16_(uint8_t *bytes, unsigned value)
{
    if (DUMPULSE_NARROW_) {
        /* Volatile makes the code smaller. Without it, avr-gcc 14 and clang swap the bytes of a
         * 16-bit number that they store, though AVR stores byte by byte. */
        volatile uint8_t *each = bytes;
        each[0] = (uint8_t)(value / 256U);
        each[1] = (uint8_t)(value % 256U);
    } else {
        bytes[1] = (uint8_t)(value % 256U);
        bytes[0] = (uint8_t)(value / 256U);
    }
}

/* The two sums of Adler-32 (RFC 1950) over bytes[0] to bytes[last]. The checksum is
 * b, then a, 16 bits each.
 *
 * a <= 1 + 256 * 255 = 65281: less than 65521, so it never needs reducing.
 * b <= 256 + 256 * 257 / 2 * 255 = 8388736 before it is reduced modulo 65521. */
static inline void dumpulse_sum_(const uint8_t *bytes, uint_fast8_t last, unsigned *sum_a,
                                 unsigned *sum_b)
{
    unsigned a = 1;
    unsigned b = 0;
    if (DUMPULSE_NARROW_) {
        b = 15;
    }

    /*@ ghost unsigned done = 0; */
    /*@ loop invariant done == \at(last, Pre) - last && done <= 255;
        loop invariant bytes == \at(bytes, Pre) + done;
        loop invariant a == adler_a(\at(bytes, Pre), done) && 1 <= a <= 1 + 255 * done;
        loop invariant DUMPULSE_NARROW_ ==> 15 <= b == 15 + adler_b(\at(bytes, Pre), done) <= 65535;
        loop invariant !DUMPULSE_NARROW_ ==> b <= 65281 * done;
        loop invariant !DUMPULSE_NARROW_ ==> b % 65521 == adler_b(\at(bytes, Pre), done);
        loop assigns done, a, b, bytes, last;
        loop variant last; */
    do {
        DUMPULSE_STEPPED_(bytes);
        a += *bytes++;
        if (DUMPULSE_NARROW_) {
            /* b is kept 15 too high, in 15..65535, so that it overflows exactly when it must be
             * reduced. The overflow subtracts 65536, which is 15 more than 65521. */
            b = (unsigned)(((uint32_t)b + a) % 65536U);
            if (b < a) {
                b += 15U;
            }
        } else {
            b += a;
        }
        /*@ assert a == adler_a(\at(bytes, Pre), done + 1); */
        /*@ assert adler_b(\at(bytes, Pre), done + 1) ==
                   (adler_b(\at(bytes, Pre), done) + a) % 65521; */
        /*@ assert DUMPULSE_NARROW_ ==> b - 15 == (\at(b, LoopCurrent) - 15 + a) % 65521; */
        /*@ assert !DUMPULSE_NARROW_ ==> b % 65521 == (\at(b, LoopCurrent) % 65521 + a) % 65521; */
        /*@ ghost done++; */
    } while (last-- != 0);
    if (DUMPULSE_NARROW_) {
        b -= 15U;
    } else if (DUMPULSE_DIVIDES_) {
        b %= 65521U;
    } else {
        /* The same without a division. (A loop of subtractions does not help: clang makes a
         * division of it.) high <= 128, so b = high * 65521 + rest, where
         * rest = b % 65536 + high * 15 is below 2 * 65521. The quotient is high, or high + 1 if
         * rest + 15 reaches 65536. To subtract quotient * 65521 is to add quotient * 15, modulo
         * 65536. */
        const unsigned high = (unsigned)(b / 65536U);
        const unsigned quotient = (unsigned)((b + high * 15U + 15U) / 65536U);
        /*@ assert b == high * 65521 + (b % 65536 + high * 15); */
        /*@ assert quotient == (b % 65536 + high * 15 < 65521 ? high : high + 1); */
        /*@ assert quotient == b / 65521; */
        b = (unsigned)((b + quotient * 15U) % 65536U);
    }
    *sum_a = a;
    *sum_b = b;
}

static inline dumpulse_result dumpulse_record(dumpulse *agent, uint8_t variable, uint8_t sender,
                                              uint8_t value)
{
    if (variable >= DUMPULSE_VARIABLES) {
        return DUMPULSE_REFUSED;
    }
    /* At most 4 * 63 = 252: one byte holds it. The pointer is 4 bytes before the entry, so only
     * this offset is added to the agent's address. To add 4 would take 6 bytes more on AVR. */
    const uint_fast8_t offset = (uint_fast8_t)(variable * DUMPULSE_ENTRY_SIZE_);
    uint8_t *entry = agent->report + offset;
    entry[DUMPULSE_SENDER_AT_] = sender;
    entry[DUMPULSE_VALUE_AT_] = value;
    dumpulse_write16_(entry + DUMPULSE_TIME_AT_, dumpulse_get_timestamp());
    return DUMPULSE_HEARTBEAT;
}

static inline void dumpulse_make_heartbeat(uint8_t packet[DUMPULSE_PACKET_SIZE], uint8_t variable,
                                           uint8_t sender, uint8_t value)
{
    unsigned a;
    unsigned b;

    packet[DUMPULSE_MAGIC_AT_] = DUMPULSE_MAGIC;
    packet[DUMPULSE_VARIABLE_AT_] = variable;
    packet[DUMPULSE_SENDER_AT_] = sender;
    packet[DUMPULSE_VALUE_AT_] = value;
    dumpulse_sum_(packet + DUMPULSE_SUM_SIZE_, DUMPULSE_PACKET_LAST_, &a, &b);
    dumpulse_write16_(packet, b);
    /*@ assert number(packet) == adler_b(packet + 4, 4); */
    /*@ assert a == adler_a(packet + 4, 4); */
    dumpulse_write16_(packet + 2, a);
    /*@ assert number(packet + 2) == adler_a(packet + 4, 4); */
}

static inline bool dumpulse_check_report(const uint8_t *report, size_t length)
{
    unsigned a;
    unsigned b;

    if (length != DUMPULSE_REPORT_SIZE) {
        return false;
    }
    dumpulse_sum_(report + DUMPULSE_SUM_SIZE_, DUMPULSE_REPORT_LAST_, &a, &b);
    return dumpulse_read16_(report) == b && dumpulse_read16_(report + 2) == a;
}

static inline dumpulse_entry dumpulse_read_entry(const uint8_t report[DUMPULSE_REPORT_SIZE],
                                                 uint8_t variable)
{
    dumpulse_entry entry = {0, 0, 0};

    if (variable < DUMPULSE_VARIABLES) {
        const uint8_t *bytes = report + (size_t)variable * DUMPULSE_ENTRY_SIZE_;
        entry.timestamp = (uint16_t)dumpulse_read16_(bytes + DUMPULSE_TIME_AT_);
        entry.sender = bytes[DUMPULSE_SENDER_AT_];
        entry.value = bytes[DUMPULSE_VALUE_AT_];
    }
    return entry;
}

static inline bool dumpulse_was_heard(dumpulse_entry entry)
{
    return entry.timestamp != 0 || entry.sender != 0 || entry.value != 0;
}

static inline uint16_t dumpulse_age(uint16_t now, uint16_t timestamp)
{
    return (uint16_t)((now + 65536UL - timestamp) % 65536UL);
}

static inline uint8_t dumpulse_changed_variable(const uint8_t packet[DUMPULSE_PACKET_SIZE])
{
    return packet[DUMPULSE_VARIABLE_AT_];
}

#ifdef __cplusplus
}
#endif

#endif /* DUMPULSE_H */

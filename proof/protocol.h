/* The protocol in ACSL, for spec.h, watch.h and keyed.h.   SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- The protocol as in SPEC.md, with the checksum as in RFC 1950, byte by byte. */

/*@ // Adler-32 of s[0] to s[n - 1], as RFC 1950 defines it.
    logic integer adler_a{L}(uint8_t *s, integer n) =
      n <= 0 ? 1 : (adler_a(s, n - 1) + s[n - 1]) % 65521;
    logic integer adler_b{L}(uint8_t *s, integer n) =
      n <= 0 ? 0 : (adler_b(s, n - 1) + adler_a(s, n)) % 65521;

    // Two bytes, big-endian.
    logic integer number{L}(uint8_t *s) = s[0] * 256 + s[1];

    // Do these bytes begin with the checksum of the next n bytes?
    predicate summed{L}(uint8_t *s, integer n) =
      number(s) == adler_b(s + 4, n) && number(s + 2) == adler_a(s + 4, n);

    predicate heartbeat{L}(uint8_t *packet, integer length) =
      length == 8 && packet[4] == 0xF1 && packet[5] < 64 && summed(packet, 4);

    predicate request{L}(uint8_t *packet, integer length) =
      length == 8 && packet[0] == 'A' && packet[1] == 'r' && packet[2] == 'e' &&
      packet[3] == 'y' && packet[4] == 'o' && packet[5] == 'u' && packet[6] == 'O' &&
      packet[7] == 'K';
*/

/* ---- Two functions of dumpulse.h. They are proved with the library. */

/*@ requires \valid_read(bytes + (0 .. 1));
    assigns \nothing; exits \false;
    ensures \result == number(bytes); */
static inline unsigned dumpulse_read16_(const uint8_t *bytes);

/*@ requires \valid(bytes + (0 .. 1)) && value <= 65535;
    assigns bytes[0 .. 1]; exits \false;
    ensures number(bytes) == value; */
static inline void dumpulse_write16_(uint8_t *bytes, unsigned value);

/* The protocol in ACSL, for the other headers here. Before it, <stdint.h> gets the types of the
 * target's compiler, and Frama-C's data model is compared with that of this compiler: proof/prove
 * lets it write the TARGET_ macros.   SPDX-License-Identifier: MIT */
#include <__fc_machdep.h> /* Frama-C's headers take their types from here */
#undef __INT32_T
#define __INT32_T TARGET_INT32_TYPE
#undef __INTPTR_T
#define __INTPTR_T TARGET_INTPTR_TYPE
#undef __PTRDIFF_T
#define __PTRDIFF_T TARGET_PTRDIFF_TYPE
#undef __UINT16_T
#define __UINT16_T TARGET_UINT16_TYPE
#undef __UINT32_T
#define __UINT32_T TARGET_UINT32_TYPE
#undef __UINTPTR_T
#define __UINTPTR_T TARGET_UINTPTR_TYPE
#undef __UINT_FAST8_T
#define __UINT_FAST8_T TARGET_UINT_FAST8_TYPE

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert((TARGET_CHAR_MIN < 0) == ((char)-1 < 0), "the sign of char");
_Static_assert(TARGET_SIZEOF_SHORT == sizeof(short), "short");
_Static_assert(TARGET_SIZEOF_INT == sizeof(int), "int");
_Static_assert(TARGET_INT_MAX == INT_MAX && 2U * TARGET_INT_MAX + 1 == UINT_MAX, "limits");
_Static_assert(TARGET_SIZEOF_LONG == sizeof(long), "long");
_Static_assert(TARGET_SIZEOF_LONG_LONG == sizeof(long long), "long long");
_Static_assert(TARGET_SIZEOF_POINTER == sizeof(void *), "pointers");
_Static_assert(TARGET_SIZEOF_SIZE_T == sizeof(size_t), "size_t");
_Static_assert(sizeof(int32_t) == 4 && sizeof(uint32_t) == 4 && sizeof(uint16_t) == 2, "stdint.h");

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

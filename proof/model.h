/* Gives <stdint.h> the types of the target's compiler, and checks that Frama-C's data model is that
 * of this compiler. proof/prove lets the compiler write the TARGET_ macros.
 * SPDX-License-Identifier: MIT */
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

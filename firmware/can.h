/* What agents on a CAN bus can be set to.   SPDX-License-Identifier: MIT */
#ifndef CAN_H
#define CAN_H

#ifndef CAN_BASE
#define CAN_BASE 0x680 /* a multiple of 128 */
#endif
#ifndef CAN_REPORTS
#define CAN_REPORTS CAN_BASE /* another multiple, if several agents serve the same nodes */
#endif
#ifndef CAN_EXTENDED
#define CAN_EXTENDED 0 /* 1: identifiers have 29 bits */
#endif
#ifndef CAN_KBITS
#define CAN_KBITS 500 /* bit rate of the bus, kbit/s */
#endif
_Static_assert(CAN_BASE % 128 == 0 && CAN_BASE < (CAN_EXTENDED ? 0x20000000 : 0x800),
               "CAN_BASE is no first identifier of 128");
_Static_assert(CAN_REPORTS % 128 == 0 && CAN_REPORTS < (CAN_EXTENDED ? 0x20000000 : 0x800),
               "CAN_REPORTS is no first identifier of 128");

#endif /* CAN_H */

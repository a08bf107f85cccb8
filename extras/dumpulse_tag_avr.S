/* Chaskey-12 for AVR. dumpulse_tag.c has the same in C, for all others.
 * SPDX-License-Identifier: MIT
 *
 * avr-gcc makes code from the C that is larger by half, and takes three times as long.
 *
 * By the ABI of avr-gcc, r24 and r25 have the first argument. r18 to r27, r30, r31 and r0 may change.
 * r8 to r17 must be as before at the end, and r1 must be 0. An AVR has words in memory with the
 * lowest byte first, as Chaskey takes them. No address here is so high that adiw has a carry.
 */
#ifdef __AVR__

#define LEFT r24  /* how many bytes, or halves of rounds, are left */
#define TIMES r25 /* how many bits are left to rotate by */

/* void dumpulse_double_(uint32_t it[12]): bytes 32 to 47 become the double of bytes 16 to 31, from
 * the lowest on. A carry out of the last one becomes 0x87 in the first one. */
    .section .text.dumpulse_double_, "ax", @progbits
    .global dumpulse_double_
    .type dumpulse_double_, @function
dumpulse_double_:
    movw r30, r24
    adiw r30, 16
    ldi LEFT, 16
    clc
.Ldouble_byte:
    ld r25, Z+
    rol r25
    std Z+15, r25
    dec LEFT
    brne .Ldouble_byte
    sbc r25, r25 /* 255 if there is a carry, else 0 */
    andi r25, 0x87
    ld r0, Z
    eor r0, r25
    st Z, r0
    ret
    .size dumpulse_double_, . - dumpulse_double_

/* void dumpulse_last_(uint32_t it[12]): bytes 0 to 15, the last block, become the tag. */
    .section .text.dumpulse_last_, "ax", @progbits
    .global dumpulse_last_
    .type dumpulse_last_, @function
dumpulse_last_:
    push r28
    push r29
    movw r28, r24
    movw r30, r24
    ldi LEFT, 16
.Lmix_key:
    ld r0, Z
    ldd r25, Z+16
    eor r0, r25
    ldd r25, Z+32
    eor r0, r25
    st Z+, r0
    dec LEFT
    brne .Lmix_key
    movw r24, r28
    rcall dumpulse_permute_
    ldi LEFT, 16
.Lmix_double:
    ld r0, Y
    ldd r25, Y+32
    eor r0, r25
    st Y+, r0
    dec LEFT
    brne .Lmix_double
    pop r29
    pop r28
    ret
    .size dumpulse_last_, . - dumpulse_last_

/* void dumpulse_permute_(uint32_t state[4]): 12 rounds. The state is in r8 to r23: a, b, c and d, from
 * the lowest byte on. A round has two halves, which differ in how far b and d are rotated; after
 * each, a and c change places. */
    .section .text.dumpulse_permute_, "ax", @progbits
    .global dumpulse_permute_
    .type dumpulse_permute_, @function
dumpulse_permute_:
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
    push r16
    push r17
    movw r30, r24
    ld r8, Z
    ldd r9, Z+1
    ldd r10, Z+2
    ldd r11, Z+3
    ldd r12, Z+4
    ldd r13, Z+5
    ldd r14, Z+6
    ldd r15, Z+7
    ldd r16, Z+8
    ldd r17, Z+9
    ldd r18, Z+10
    ldd r19, Z+11
    ldd r20, Z+12
    ldd r21, Z+13
    ldd r22, Z+14
    ldd r23, Z+15
    ldi LEFT, 24
.Lhalf:
    add r8, r12 /* a += b */
    adc r9, r13
    adc r10, r14
    adc r11, r15
    add r16, r20 /* c += d */
    adc r17, r21
    adc r18, r22
    adc r19, r23
    ldi TIMES, 5 /* b <<< 5, or 7 in the second half */
    sbrc LEFT, 0
    ldi TIMES, 7
.Lrotate_b:
    lsl r12
    rol r13
    rol r14
    rol r15
    adc r12, r1
    dec TIMES
    brne .Lrotate_b
    mov r0, r23 /* d <<< 8, and 5 more in the second half */
    mov r23, r22
    mov r22, r21
    mov r21, r20
    mov r20, r0
    sbrc LEFT, 0
    ldi TIMES, 5
    rjmp .Lis_rotated
.Lrotate_d:
    lsl r20
    rol r21
    rol r22
    rol r23
    adc r20, r1
.Lis_rotated:
    dec TIMES
    brpl .Lrotate_d
    eor r12, r8 /* b ^= a */
    eor r13, r9
    eor r14, r10
    eor r15, r11
    eor r20, r16 /* d ^= c */
    eor r21, r17
    eor r22, r18
    eor r23, r19
    movw r0, r8 /* a <<< 16; then a and c change places */
    movw r8, r16
    movw r16, r10
    movw r10, r18
    movw r18, r0
    clr r1
    dec LEFT
    brne .Lhalf
    st Z, r8
    std Z+1, r9
    std Z+2, r10
    std Z+3, r11
    std Z+4, r12
    std Z+5, r13
    std Z+6, r14
    std Z+7, r15
    std Z+8, r16
    std Z+9, r17
    std Z+10, r18
    std Z+11, r19
    std Z+12, r20
    std Z+13, r21
    std Z+14, r22
    std Z+15, r23
    pop r17
    pop r16
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    ret
    .size dumpulse_permute_, . - dumpulse_permute_

#endif

/* Chaskey-12 for AVR. dumpulse_tag.c has the same in C, for all others.
 * SPDX-License-Identifier: MIT
 *
 * avr-gcc makes code from the C that is larger by half, and takes three times as long.
 *
 * By the ABI of avr-gcc, r24 and r25 have the first argument. r18 to r27, r30, r31 and r0 may
 * change.
 * r2 to r17 must be as before at the end, and r1 must be 0. An AVR has words in memory with the
 * lowest byte first, as Chaskey takes them.
 */
#ifdef __AVR__

/* The assembler of avr-gcc would make movw for chips that do not have it, such as an ATtiny26 or an
 * AT90S. clang does not tell which chips do. */
#if !defined __AVR_HAVE_MOVW__ && !defined __clang__
#error "dumpulse_tag_avr.S is for AVR chips with movw"
#endif

#define LEFT r24    /* how many bytes are left */
#define HALVES r30  /* how many halves of rounds are left */
#define TIMES r31   /* how many bits are left to rotate by */

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
    sbiw r30, 16
    rcall .Lpermute /* leaves Z as it was */
    ldi LEFT, 16
.Lmix_double:
    ld r0, Z
    ldd r25, Z+32
    eor r0, r25
    st Z+, r0
    dec LEFT
    brne .Lmix_double
    ret
    .size dumpulse_last_, . - dumpulse_last_

/* void dumpulse_permute_(uint32_t state[4]): 12 rounds. The state is in r12 to r27: a, b, c and d,
 * from the lowest byte on. A round has two halves, which differ in how far b and d are rotated;
 * after each, a and c change places. */
    .global dumpulse_permute_
    .type dumpulse_permute_, @function
dumpulse_permute_:
    movw r30, r24
.Lpermute:
    push r12
    push r13
    push r14
    push r15
    push r16
    push r17
    push r30
    push r31
    ld r12, Z
    ldd r13, Z+1
    ldd r14, Z+2
    ldd r15, Z+3
    ldd r16, Z+4
    ldd r17, Z+5
    ldd r18, Z+6
    ldd r19, Z+7
    ldd r20, Z+8
    ldd r21, Z+9
    ldd r22, Z+10
    ldd r23, Z+11
    ldd r24, Z+12
    ldd r25, Z+13
    ldd r26, Z+14
    ldd r27, Z+15
    ldi HALVES, 24
.Lhalf:
    add r12, r16 /* a += b */
    adc r13, r17
    adc r14, r18
    adc r15, r19
    add r20, r24 /* c += d */
    adc r21, r25
    adc r22, r26
    adc r23, r27
    mov r0, r19 /* b <<< 8, and 3 back, so by 5; or 1 back in the second half, so by 7 */
    mov r19, r18
    mov r18, r17
    mov r17, r16
    mov r16, r0
    ldi TIMES, 3
    sbrc HALVES, 0
    ldi TIMES, 1
.Lrotate_b:
    lsr r0 /* its lowest bit is that of b */
    ror r19
    ror r18
    ror r17
    ror r16
    dec TIMES
    brne .Lrotate_b
    mov r0, r27 /* d <<< 8, and 5 more in the second half */
    mov r27, r26
    mov r26, r25
    mov r25, r24
    mov r24, r0
    sbrc HALVES, 0
    ldi TIMES, 5
    rjmp .Lis_rotated
.Lrotate_d:
    lsl r24
    rol r25
    rol r26
    rol r27
    adc r24, r1
.Lis_rotated:
    dec TIMES
    brpl .Lrotate_d
    eor r16, r12 /* b ^= a */
    eor r17, r13
    eor r18, r14
    eor r19, r15
    eor r24, r20 /* d ^= c */
    eor r25, r21
    eor r26, r22
    eor r27, r23
    movw r0, r12 /* a <<< 16; then a and c change places */
    movw r12, r20
    movw r20, r14
    movw r14, r22
    movw r22, r0
    clr r1
    dec HALVES
    brne .Lhalf
    pop r31
    pop r30
    st Z, r12
    std Z+1, r13
    std Z+2, r14
    std Z+3, r15
    std Z+4, r16
    std Z+5, r17
    std Z+6, r18
    std Z+7, r19
    std Z+8, r20
    std Z+9, r21
    std Z+10, r22
    std Z+11, r23
    std Z+12, r24
    std Z+13, r25
    std Z+14, r26
    std Z+15, r27
    pop r17
    pop r16
    pop r15
    pop r14
    pop r13
    pop r12
    ret
    .size dumpulse_permute_, . - dumpulse_permute_

#elif defined __linux__

/* Without this, a program for Linux that has this file has an executable stack. */
    .section .note.GNU-stack, "", %progbits

#endif

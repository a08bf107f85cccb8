/* AES-128 for an AVR: void aes_encrypt(uint8_t block[16], const uint8_t keys[176]).
 *
 * The state is in r2 to r17, a column in four registers that follow each other. The S-box begins
 * at an address whose low byte is 0, in flash, or with -DAES_TABLE_IN_RAM in RAM, which is faster by
 * a cycle for each byte. An AVR has no cache, so the time depends on no key and no message.
 * SPDX-License-Identifier: MIT */
#ifdef __AVR__
#include "sbox.h"

#define BYTE(value) value
#ifdef AES_TABLE_IN_RAM
#define LOOK_UP ld
    .section .data.aes_sbox, "aw"
#else
#define LOOK_UP lpm
    .section .progmem.aes_sbox, "a"
#endif
    .balign 256
    .global aes_sbox
    .type aes_sbox, @object
    .size aes_sbox, 256
aes_sbox:
    .byte SBOX(BYTE)

    .macro substitute to, from
    mov r30, \from
    LOOK_UP \to, Z
    .endm

/* The bytes of a row go round by one place: a gets that of b. */
    .macro shift_row a, b, c, d
    mov r0, \a
    substitute \a, \b
    substitute \b, \c
    substitute \c, \d
    substitute \d, r0
    .endm

    .macro swap_row a, b
    mov r0, \a
    substitute \a, \b
    substitute \b, r0
    .endm

    .macro sub_and_shift
    substitute r2, r2
    substitute r6, r6
    substitute r10, r10
    substitute r14, r14
    shift_row r3, r7, r11, r15
    swap_row r4, r12
    swap_row r8, r16
    shift_row r5, r17, r13, r9
    .endm

/* Times two in the field of AES: 3 cycles, whatever the byte is. */
    .macro double byte
    lsl \byte
    brcc .+2
    eor \byte, r21
    .endm

/* With t = a + b + c + d, a becomes a + t + 2(a + b), and so on. The sum of a column stays t, so
 * the last byte is t less the others. */
    .macro mix_column a, b, c, d
    movw r18, \a
    eor r18, \b
    eor r19, \c
    eor \d, \c
    mov r20, \d
    eor \d, r18
    double r18
    double r19
    double r20
    eor \a, \d
    eor \b, \d
    eor \c, \d
    eor \a, r18
    eor \b, r19
    eor \c, r20
    eor \d, \a
    eor \d, \b
    eor \d, \c
    .endm

    .macro add_round_key
    .irp byte, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
    ld r0, Y+
    eor r\byte, r0
    .endr
    .endm

    .section .text.aes_encrypt, "ax"
    .global aes_encrypt
    .type aes_encrypt, @function
aes_encrypt:
    .irp saved, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29
    push r\saved
    .endr
    movw r26, r24
    movw r28, r22
    .irp byte, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
    ld r\byte, X+
    .endr
    ldi r21, 0x1B
    ldi r22, 9
    ldi r31, hi8(aes_sbox)
    add_round_key
1:
    sub_and_shift
    mix_column r2, r3, r4, r5
    mix_column r6, r7, r8, r9
    mix_column r10, r11, r12, r13
    mix_column r14, r15, r16, r17
    add_round_key
    dec r22
    breq 2f
    rjmp 1b
2:
    sub_and_shift
    add_round_key
    .irp byte, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2
    st -X, r\byte
    .endr
    .irp saved, 29, 28, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2
    pop r\saved
    .endr
    ret
    .size aes_encrypt, . - aes_encrypt
#endif

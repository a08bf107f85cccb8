/* SHA-256 of one block: void sha256_block(uint32_t state[8], const uint8_t block[64]), for an AVR.
 * SPDX-License-Identifier: MIT */
#ifdef __AVR__
    .section .progmem.sha256_constants, "a"
    .type sha256_constants, %object
    .size sha256_constants, 256
sha256_constants:
    .long 0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4
    .long 0xAB1C5ED5, 0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE
    .long 0x9BDC06A7, 0xC19BF174, 0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F
    .long 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA, 0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7
    .long 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967, 0x27B70A85, 0x2E1B2138, 0x4D2C6DFC
    .long 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85, 0xA2BFE8A1, 0xA81A664B
    .long 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070, 0x19A4C116
    .long 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3
    .long 0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7
    .long 0xC67178F2

/* Words have their lowest byte first, in four registers that follow each other, named by the number
 * of the first: T the sum, S the sigma, P and Q two words, A a word and B its copy, which rotates.
 * Eight words of the state lie in a window, which goes down by a word in each round: so no word is
 * moved but after 16 rounds. */
#define T 2
#define S 6
#define P 10
#define Q 14
#define A 18
#define B 22

    .section .bss.sha256, "aw", @nobits
    .balign 64
    .type sha256_room, @object
    .size sha256_room, 160
sha256_room:
schedule: /* the last 16 words of it */
    .skip 64
window: /* of 8 words, and 16 more into which it goes */
    .skip 96

    .macro load word, at
    ldd \word, \at
    ldd \word + 1, \at + 1
    ldd \word + 2, \at + 2
    ldd \word + 3, \at + 3
    .endm

    .macro store word, at
    std \at, \word
    std \at + 1, \word + 1
    std \at + 2, \word + 2
    std \at + 3, \word + 3
    .endm

/* each byte of \to with that byte of \from which lies \by places higher */
    .macro bytes operation, to, from, by
    \operation \to, \from + ((\by) & 3)
    \operation \to + 1, \from + ((\by + 1) & 3)
    \operation \to + 2, \from + ((\by + 2) & 3)
    \operation \to + 3, \from + ((\by + 3) & 3)
    .endm

    .macro add_word to, from
    add \to, \from
    adc \to + 1, \from + 1
    adc \to + 2, \from + 2
    adc \to + 3, \from + 3
    .endm

    .macro copy to, from
    movw \to, \from
    movw \to + 2, \from + 2
    .endm

    .macro rotate_left word
    lsl \word
    rol \word + 1
    rol \word + 2
    rol \word + 3
    adc \word, r1
    .endm

    .macro rotate_right word, times
    .rept \times
    bst \word, 0
    lsr \word + 3
    ror \word + 2
    ror \word + 1
    ror \word
    bld \word + 3, 7
    .endr
    .endm

/* Z to the word of the schedule that comes so many after the one that is made now, in r25 */
    .macro point words
    mov r30, r25
    subi r30, -4 * \words
    andi r30, 63
    ori r30, lo8(schedule)
    .endm

    .section .text.sha256_block, "ax"
    .global sha256_block
    .type sha256_block, @function
sha256_block:
    .irp saved, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29
    push r\saved
    .endr
    push r24
    push r25
    movw r30, r22 /* the block, whose words have their highest byte first */
    ldi r26, lo8(schedule)
    ldi r27, hi8(schedule)
    ldi r18, 16
1:
    .irp byte, 3, 2, 1, 0
    ldd r0, Z + \byte
    st X+, r0
    .endr
    adiw r30, 4
    dec r18
    brne 1b
    movw r30, r24
    ldi r28, lo8(window + 64)
    ldi r29, hi8(window + 64)
    movw r26, r28
    ldi r18, 32
2:
    ld r0, Z+
    st X+, r0
    dec r18
    brne 2b
    ldi r30, lo8(sha256_constants)
    ldi r31, hi8(sha256_constants)
rounds: /* 16 of them */
    ldi r26, lo8(schedule)
    ldi r27, hi8(schedule)
round:
    load A, Y+16 /* e */
    load P, Y+20
    load Q, Y+24
    load T, Y+28
    bytes eor, P, Q, 0 /* choose: (f + g) e + g */
    bytes and, P, A, 0
    bytes eor, P, Q, 0
    add_word T, P
    copy B, A /* rotated by 25, 11 and 6 */
    rotate_right B, 1
    bytes mov, S, B, 3
    rotate_right B, 2
    bytes eor, S, B, 1
    rotate_left A
    rotate_left A
    bytes eor, S, A, 1
    add_word T, S
    ld P, X+
    ld P + 1, X+
    ld P + 2, X+
    ld P + 3, X+
    add_word T, P
    lpm P, Z+
    lpm P + 1, Z+
    lpm P + 2, Z+
    lpm P + 3, Z+
    add_word T, P
    load A, Y+12 /* d becomes e */
    add_word A, T
    store A, Y+12
    load A, Y+0 /* a */
    load P, Y+4
    load Q, Y+8
    bytes eor, Q, P, 0 /* majority: (b + c) (a + b) + b */
    copy S, P
    bytes eor, S, A, 0
    bytes and, Q, S, 0
    bytes eor, Q, P, 0
    add_word T, Q
    copy B, A /* rotated by 2, 22 and 13 */
    rotate_right B, 2
    rotate_left A
    rotate_left A
    bytes eor, B, A, 3
    rotate_left A
    bytes eor, B, A, 2
    add_word T, B
    sbiw r28, 4
    store T, Y+0
    cpi r26, lo8(schedule + 64)
    breq 3f
    rjmp round
3:
    movw r26, r28 /* the window goes up again */
    subi r28, -64
    sbci r29, -1
    ldi r18, 32
4:
    ld r0, X+
    std Y + 0, r0
    adiw r28, 1
    dec r18
    brne 4b
    sbiw r28, 32
    cpi r30, lo8(sha256_constants + 256)
    ldi r18, hi8(sha256_constants + 256)
    cpc r31, r18
    brne 5f
    rjmp over
5:
    movw r26, r30 /* the next 16 words of the schedule */
    ldi r31, hi8(schedule)
    clr r25
6:
    point 0
    load T, Z+0
    point 9
    load P, Z+0
    add_word T, P
    point 1
    load A, Z+0 /* rotated by 7 and 18, and shifted by 3 */
    copy P, A
    rotate_left P
    bytes mov, S, P, 1
    rotate_right A, 2
    bytes eor, S, A, 2
    rotate_right A, 1
    andi A + 3, 0x1F
    bytes eor, S, A, 0
    add_word T, S
    point 14
    load A, Z+0 /* rotated by 17 and 19, and shifted by 10 */
    rotate_right A, 1
    bytes mov, S, A, 2
    rotate_right A, 1
    eor S, A + 1
    eor S + 1, A + 2
    mov r24, A + 3
    andi r24, 0x3F
    eor S + 2, r24
    rotate_right A, 1
    bytes eor, S, A, 2
    add_word T, S
    point 0
    store T, Z+0
    subi r25, -4
    cpi r25, 64
    breq 7f
    rjmp 6b
7:
    movw r30, r26
    rjmp rounds
over:
    pop r31
    pop r30
    ldi r18, 8
8:
    load T, Z+0
    load P, Y+0
    add_word T, P
    store T, Z+0
    adiw r28, 4
    adiw r30, 4
    dec r18
    brne 8b
    .irp saved, 29, 28, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2
    pop r\saved
    .endr
    ret
    .size sha256_block, . - sha256_block
#endif

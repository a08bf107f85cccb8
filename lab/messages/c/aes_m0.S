/* A block of AES-128 for a Cortex-M0 or M0+, by the table of aes.h. No branch and no address but
 * those in the table depends on the key or the message.   SPDX-License-Identifier: MIT */
#ifdef __ARM_ARCH_6M__
    .syntax unified
    .text
    .thumb

/* What the byte of a word that begins at a bit adds to a column. */
.macro entry to, word, bit, load=ldr
.if \bit == 24
    lsrs \to, \word, #24
    lsls \to, \to, #2
.elseif \bit == 0
    lsls \to, \word, #24
    lsrs \to, \to, #22
.else
    lsls \to, \word, #24 - \bit
    lsrs \to, \to, #24
    lsls \to, \to, #2
.endif
    \load \to, [r6, \to]
.endm

/* r4: a column of the next round, whose key is `at` bytes behind lr. The rows follow one another by
 * rotations of 8 bits to the left: of 24, which r7 has, to the right. */
.macro column a, b, c, d, at
    entry r4, \d, 24
    rors r4, r7
    entry r5, \c, 16
    eors r4, r5
    rors r4, r7
    entry r5, \b, 8
    eors r4, r5
    rors r4, r7
    entry r5, \a, 0
    eors r4, r5
    mov r5, lr
    ldr r5, [r5, #\at]
    eors r4, r5
.endm

/* The last round has substitutes alone: the second byte of each entry, which r6 then points to. */
.macro last a, b, c, d, at
    entry r4, \d, 24, ldrb
    lsls r4, r4, #8
    entry r5, \c, 16, ldrb
    orrs r4, r5
    lsls r4, r4, #8
    entry r5, \b, 8, ldrb
    orrs r4, r5
    lsls r4, r4, #8
    entry r5, \a, 0, ldrb
    orrs r4, r5
    mov r5, lr
    ldr r5, [r5, #\at]
    eors r4, r5
.endm

.macro four kind
    \kind r0, r1, r2, r3, 0
    mov r8, r4
    \kind r1, r2, r3, r0, 4
    mov r9, r4
    \kind r2, r3, r0, r1, 8
    mov r12, r4
    \kind r3, r0, r1, r2, 12
    mov r0, r8
    mov r1, r9
    mov r2, r12
.endm

/* void aes_encrypt(uint8_t *block, const uint8_t *keys): both begin at a word. */
    .global aes_encrypt
    .type aes_encrypt, %function
aes_encrypt:
    push {r0, r4-r7, lr}
    mov r4, r8
    mov r5, r9
    movs r6, #160
    adds r6, r1 /* the keys of the last round */
    push {r4-r6}
    mov r7, r0
    ldmia r1!, {r4-r6}
    ldmia r7!, {r0, r2, r3}
    eors r0, r4
    eors r2, r5
    eors r3, r6
    ldr r7, [r7]
    ldmia r1!, {r4}
    eors r7, r4
    mov lr, r1
    movs r1, r2
    movs r2, r3
    movs r3, r7
    ldr r6, =aes_table
    movs r7, #24
round:
    four column
    movs r3, r4
    mov r5, lr
    adds r5, #16
    mov lr, r5
    ldr r4, [sp, #8]
    cmp r5, r4
    bne round
    adds r6, #1
    four last
    pop {r5-r7}
    mov r8, r5
    mov r9, r6
    pop {r5}
    stmia r5!, {r0-r2, r4}
    pop {r4-r7, pc}
    .size aes_encrypt, . - aes_encrypt
    .ltorg
#endif

/* The target of the power sandwich: a NUCLEO-F411RE that runs one scheme of the lab.
 *
 * lab/joules/sandwich.md says how to wire and to drive it. It speaks on USART 2, which the ST-Link
 * shows to a computer as a serial line: 115,200 baud, 8 data bits, no parity, 1 stop bit. A letter
 * starts a measurement. Then pin D7 rises for a moment, and the operation is repeated for 10 s.
 *
 * The same image runs in QEMU, on its STM32F405. That has the same USART, but no clock tree, no
 * pins and no cycle counter. There, time stands for instructions: `-icount` makes them equal.
 *
 * The build defines BOARD_NAME (a text), BOARD_IS_KEM (0 or 1), and BOARD_REFUSES (0 or 1: the
 * scheme notices what was changed).   SPDX-License-Identifier: MIT */
#include "operation.h"

#include <stdarg.h>
#include <stdio.h>

STEP(vectors)
STEP(key)
#if BOARD_IS_KEM
STEP(encapsulate)
STEP(decapsulate)
#else
STEP(sign)
STEP(verify)
#endif
STEP(refuse)
extern const uint32_t lab_sizes[3]; /* Bytes: secret key, public key, signature or ciphertext. */

/* ---------------------------------------------------------------- registers, by RM0383 */

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define RCC_CR REGISTER(0x40023800)
#define RCC_PLLCFGR REGISTER(0x40023804)
#define RCC_CFGR REGISTER(0x40023808)
#define RCC_AHB1ENR REGISTER(0x40023830)
#define RCC_APB1ENR REGISTER(0x40023840)
#define PWR_CR REGISTER(0x40007000)
#define PWR_CSR REGISTER(0x40007004)
#define FLASH_ACR REGISTER(0x40023C00)
#define GPIOA_MODER REGISTER(0x40020000)
#define GPIOA_BSRR REGISTER(0x40020018) /* low half sets a pin, high half clears it */
#define GPIOA_AFRL REGISTER(0x40020020)
#define USART2_SR REGISTER(0x40004400)
#define USART2_DR REGISTER(0x40004404)
#define USART2_BRR REGISTER(0x40004408)
#define USART2_CR1 REGISTER(0x4000440C)
#define TICK_CONTROL REGISTER(0xE000E010) /* the core's SysTick counts down, with 24 bits */
#define TICK_LOAD REGISTER(0xE000E014)
#define TICK_VALUE REGISTER(0xE000E018)
#define FPU_ACCESS REGISTER(0xE000ED88)
#define DEBUG_CONTROL REGISTER(0xE000EDFC)
#define DWT_CONTROL REGISTER(0xE0001000)
#define DWT_CYCLES REGISTER(0xE0001004)

enum { HERTZ = 96000000, HSI_HERTZ = 16000000, BAUD = 115200 };
enum { RECEIVED = 1 << 5, OVERRUN = 1 << 3, SENT = 1 << 6, EMPTY = 1 << 7 }; /* USART2_SR */
enum { D7 = 1 << 8 };                                                        /* PA8 */
enum { TICK_BITS = 24 };

/* ---------------------------------------------------------------- clock and time */

static uint32_t hertz = HSI_HERTZ;
static const char *clock_source = "simulated";

/* False if the bit does not come in time: 100,000 rounds are longer than any of these may take. */
static bool waited(volatile uint32_t *address, uint32_t mask, uint32_t wanted)
{
    for (uint32_t rounds = 0; rounds < 100000; rounds++)
        if ((*address & mask) == wanted)
            return true;
    return false;
}

enum { HSI_READY = 1 << 1, HSE_ON = 1 << 16, HSE_READY = 1 << 17, HSE_GIVEN = 1 << 18 };
enum { PLL_ON = 1 << 24, PLL_READY = 1 << 25, PLL_FROM_HSE = 1 << 22 };
enum { POWER_CONTROL = 1 << 28, FULL_VOLTAGE = 3 << 14, VOLTAGE_READY = 1 << 14 };
enum { CACHES = 7 << 8, WAIT_STATES = 3, BUS_1_HALVED = 4 << 10, RUN_FROM_PLL = 2 };

/* 96 MHz from the PLL, as in the study: from the 8 MHz of the ST-Link's crystal, which come in as
 * HSE, or if they do not come, from the chip's own 16 MHz, which may be off by 1 %. */
static void start_clock(void)
{
    if (!(RCC_CR & HSI_READY)) { /* each chip runs from its HSI now; QEMU has none */
        hertz = HERTZ;
        return;
    }
    RCC_APB1ENR |= POWER_CONTROL;
    PWR_CR |= FULL_VOLTAGE; /* more than 84 MHz need it */
    FLASH_ACR = CACHES | WAIT_STATES;
    RCC_CR |= HSE_GIVEN;
    RCC_CR |= HSE_ON;
    const bool hse = waited(&RCC_CR, HSE_READY, HSE_READY);
    if (!hse)
        RCC_CR &= ~(uint32_t)HSE_ON;
    clock_source = hse ? "HSE" : "HSI";
    RCC_CFGR = BUS_1_HALVED; /* that of USART 2: at most 50 MHz are allowed */
    /* Divided to 2 MHz, times 96, divided by 2; by 4 for USB, which is not used. */
    RCC_PLLCFGR = 4U << 24 | (hse ? (uint32_t)PLL_FROM_HSE | 4U : 8U) | 96U << 6;
    RCC_CR |= PLL_ON;
    if (waited(&RCC_CR, PLL_READY, PLL_READY) && waited(&PWR_CSR, VOLTAGE_READY, VOLTAGE_READY)) {
        RCC_CFGR |= RUN_FROM_PLL;
        if (waited(&RCC_CFGR, 3U << 2, (uint32_t)RUN_FROM_PLL << 2)) {
            hertz = HERTZ;
            return;
        }
    }
    clock_source = "HSI, as the PLL does not run";
}

static volatile uint32_t wraps; /* Wraps of SysTick. */

static void on_tick(void)
{
    wraps++;
}

/* Ticks of the clock since the start. */
static uint64_t now(void)
{
    uint32_t before, value;
    do {
        before = wraps;
        value = TICK_VALUE;
    } while (before != wraps);
    return ((uint64_t)before << TICK_BITS) + ((1U << TICK_BITS) - 1U - value);
}

static uint64_t ticks_of(uint32_t milliseconds)
{
    return (uint64_t)milliseconds * (hertz / 1000U);
}

static uint32_t milliseconds_of(uint64_t ticks)
{
    return (uint32_t)(ticks / (hertz / 1000U));
}

/* ---------------------------------------------------------------- what an operation takes */

enum { LOOP = 1 << 16 };
static bool has_cycles;     /* the chip counts them */
static uint32_t loop_ticks; /* without: what LOOP instructions take */

static uint32_t counter(void)
{
    return has_cycles ? DWT_CYCLES : (uint32_t)now();
}

/* What a loop of exactly LOOP instructions takes: half are subtractions, half are jumps. */
static uint32_t calibrated(void)
{
    uint32_t rounds = LOOP / 2;
    const uint32_t begun = counter();
    __asm__ volatile("1: subs %0, %0, #1\n bne 1b" : "+r"(rounds)::"cc");
    return counter() - begun;
}

static void start_counter(void)
{
    DEBUG_CONTROL |= 1U << 24;
    DWT_CYCLES = 0;
    DWT_CONTROL |= 1U;
    has_cycles = DWT_CYCLES != DWT_CYCLES; /* it counts on between the two */
    /* The difference of two loops has none of what is around them. */
    if (!has_cycles) {
        const uint32_t once = calibrated();
        const uint32_t begun = counter();
        (void)calibrated();
        (void)calibrated();
        loop_ticks = counter() - begun - once;
    }
}

/* Cycles, or instructions where there are none. */
static uint32_t mean(uint64_t counted, uint32_t runs)
{
    if (!has_cycles)
        counted = counted * LOOP / loop_ticks;
    return (uint32_t)((counted + runs / 2U) / runs);
}

/* ---------------------------------------------------------------- console */

static void write_byte(char byte)
{
    while (!(USART2_SR & EMPTY)) {
    }
    USART2_DR = (uint8_t)byte;
}

static void write_text(const char *text)
{
    while (*text != '\0')
        write_byte(*text++);
}

/* newlib's vsnprintf may refer to a heap, and uses none for these formats. */
__attribute__((weak)) void *_sbrk(ptrdiff_t more)
{
    (void)more;
    return (void *)-1;
}

__attribute__((format(printf, 1, 2))) static void write_line(const char *format, ...)
{
    char text[160];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    write_text(text);
}

/* The last bit is out: the line draws no current while the meter measures. */
static void flush(void)
{
    while (!(USART2_SR & SENT)) {
    }
}

static char read_byte(void)
{
    while (!(USART2_SR & (RECEIVED | OVERRUN))) {
    }
    return (char)USART2_DR;
}

static void start_console(void)
{
    RCC_AHB1ENR |= 1U;       /* port A */
    RCC_APB1ENR |= 1U << 17; /* USART 2 */
    /* PA2 and PA3 belong to USART 2 (function 7), PA8 is an output. PA13 and PA14 are kept: they
     * belong to the ST-Link. */
    GPIOA_BSRR = D7 << 16;
    GPIOA_AFRL = 7U << 12 | 7U << 8;
    GPIOA_MODER = 0xA8000000U | 1U << 16 | 2U << 6 | 2U << 4;
    USART2_BRR = (hertz / 2 + BAUD / 2) / BAUD;
    USART2_CR1 = 1U << 13 | 1U << 3 | 1U << 2; /* on, sends, receives */
}

/* ---------------------------------------------------------------- measurements */

/* The meter samples for 10 s from the rise of D7. The operation goes on a little longer, as the
 * meter's clock and a chip's own may differ by 1 %. */
enum { MEASURED_MS = 10200 };

typedef struct step {
    const char *name, *brief;
    void (*prepare)(unsigned n);
    void (*run)(void);
    bool (*right)(void);
    bool quick; /* A check of its result takes little time beside a run. */
} step;

#define OF(part) part##_prepare, part##_run, part##_right
static const step steps[] = {
    {"KeyGen", "kg", OF(key), false},
#if BOARD_IS_KEM
    {"Encaps", "enc", OF(encapsulate), false},
    {"Decaps", "dec", OF(decapsulate), true},
#else
    {"Sign", "sig", OF(sign), false},
    {"Verify", "ver", OF(verify), true},
#endif
};
enum { STEPS = sizeof steps / sizeof steps[0] };

static const step tests[] = {
    {"vectors", "", OF(vectors), true},
#if BOARD_REFUSES
    {"refuse", "", OF(refuse), true},
#endif
};
enum { TESTS = sizeof tests / sizeof tests[0] };

/* A millisecond is long enough for the meter, and short next to 10 s. */
static void trigger(void)
{
    GPIOA_BSRR = D7;
    const uint64_t begun = now();
    while (now() - begun < ticks_of(1)) {
    }
    GPIOA_BSRR = D7 << 16;
}

static void write_end(uint64_t ticks, uint32_t runs, uint32_t errors)
{
    write_line("[END] %lu milliseconds, n=%lu (%lu errors)\n", milliseconds_of(ticks), runs,
               errors);
}

#define RESULT "*** %-8s%11lu " BOARD_NAME "\n"

/* These steps in turns. Nothing else happens between the trigger and the end, but for the look at
 * the clock, and at the result where that is quick. */
static void measure(const step *first, uint32_t count)
{
    uint64_t sums[STEPS] = {0};
    uint32_t runs = 0, errors = 0;
    write_line("[START] measure(%d", MEASURED_MS);
    for (uint32_t i = 0; i < count; i++)
        write_line(",%s", first[i].brief);
    write_text(")\n");
    for (uint32_t i = 0; i < count; i++)
        first[i].prepare(0);
    const step *last = &first[count - 1U];
    flush();
    trigger();
    const uint64_t begun = now();
    do {
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t before = counter();
            first[i].run();
            sums[i] += counter() - before;
        }
        runs++;
        if (last->quick && !last->right())
            errors++;
    } while (now() - begun < ticks_of(MEASURED_MS));
    const uint64_t taken = now() - begun;
    if (!last->quick && !last->right())
        errors++;
    write_end(taken, runs, errors);
    uint32_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        write_line(RESULT, first[i].name, mean(sums[i], runs));
        total += mean(sums[i], runs);
    }
    if (count > 1)
        write_line(RESULT, "Total", total);
}

/* The core sleeps. Only the wraps of SysTick wake it, 6 times a second. */
static void idle(void)
{
    write_line("[START] measure(%d,idle)\n", MEASURED_MS);
    flush();
    trigger();
    const uint64_t begun = now();
    while (now() - begun < ticks_of(MEASURED_MS))
        __asm__ volatile("wfi");
    write_end(now() - begun, 0, 0);
}

static void test(void)
{
    uint32_t errors = 0;
    write_text("[START] selftest()\n");
    const uint64_t begun = now();
    const step *const tables[] = {tests, steps};
    const uint32_t sizes[] = {TESTS, STEPS};
    for (uint32_t table = 0; table < 2; table++)
        for (const step *one = tables[table]; one != tables[table] + sizes[table]; one++) {
            one->prepare(0);
            one->run();
            if (!one->right())
                errors++;
        }
    write_end(now() - begun, TESTS + STEPS, errors);
}

static void serve(void)
{
    write_text("\n[RESET] The power sandwich of the Dumpulse lab.\n\n");
    write_line("SystemCoreClock         %lu\n", hertz);
    write_line("CLOCK_SOURCE            %s\n", clock_source);
    write_line("COUNTED                 %s\n",
               has_cycles ? "cycles" : "instructions, by a simulator");
    write_line("CRYPTO_ALGNAME          %s\n", BOARD_NAME);
    write_line("CRYPTO_SECRETKEYBYTES   %lu\n", lab_sizes[0]);
    write_line("CRYPTO_PUBLICKEYBYTES   %lu\n", lab_sizes[1]);
#if BOARD_IS_KEM
    write_line("CRYPTO_CIPHERTEXTBYTES  %lu\n", lab_sizes[2]);
    write_line("CRYPTO_BYTES            32\n");
#else
    write_line("CRYPTO_BYTES            %lu\n", lab_sizes[2]);
#endif
    for (;;) {
#if BOARD_IS_KEM
        write_text("[INPUT] a = all, k = keygen, e = encaps, d = decaps, z = idle, "
                   "t = self-test\n");
        const char letters[] = "ked";
#else
        write_text("[INPUT] a = all, k = keygen, s = sign, v = verify, z = idle, t = self-test\n");
        const char letters[] = "ksv";
#endif
        char letter;
        do
            letter = read_byte();
        while (letter == '\r' || letter == '\n');
        if (letter == 'a')
            measure(steps, STEPS);
        else if (letter == 'z')
            idle();
        else if (letter == 't')
            test();
        for (uint32_t i = 0; i < STEPS; i++)
            if (letter == letters[i])
                measure(&steps[i], 1);
    }
}

/* ---------------------------------------------------------------- start-up */

extern uint32_t stack_top[], data_kept[], data_begin[], data_end[], zeros_begin[], zeros_end[];

LAB_APART static void start(void)
{
    const uint32_t *kept = data_kept;
    for (uint32_t *word = data_begin; word != data_end; word++)
        *word = *kept++;
    for (uint32_t *word = zeros_begin; word != zeros_end; word++)
        *word = 0;
    start_clock();
    TICK_LOAD = (1U << TICK_BITS) - 1U;
    TICK_VALUE = 0;
    TICK_CONTROL = 7;
    start_counter();
    start_console();
    serve();
}

/* The compiler may use the floating-point registers anywhere, so they are switched on apart. */
static void reset(void)
{
    FPU_ACCESS |= 0xFU << 20;
    __asm__ volatile("dsb\n isb" ::: "memory");
    start();
}

/* Also if the stack is full. It begins again, as this may need some. */
__attribute__((naked)) static void fault(void)
{
    __asm__ volatile("ldr r0, =stack_top\n mov sp, r0\n b say_fault");
}

__attribute__((used, noreturn)) void say_fault(void);
void say_fault(void)
{
    write_text("\n[FAULT] the program cannot go on\n");
    for (;;) {
    }
}

/* The core reads this table: where the stack begins, and what to call for each exception. */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*exceptions[15])(void);
} vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, on_tick},
};

/* The agent on a CAN bus, with the controller of an STM32F4 or an STM32F103.
 *                                                                SPDX-License-Identifier: MIT
 * SPEC.md, "Transport: CAN", has the identifiers. can_stm32.md has the wiring. The controller is
 * called bxCAN, and is the same in both chips: RM0090, section 32, and RM0008, section 24. Its
 * filters stop the frames of others. Its interrupts put frames into a queue, and fill its three
 * mailboxes with the frames of a report. The loop takes packets from the queue, and sleeps when
 * there are none.
 *
 * Variable 0 is the agent's own: its timestamp is the current time, its value counts how often the
 * controller was off the bus or lost frames, up to 255.
 *
 * Each wait for the controller or for the crystal ends when the watchdog resets the chip.
 */
#include "can.h"
#include "dumpulse.h"

#ifndef CAN_CRYSTAL
#define CAN_CRYSTAL 8 /* MHz, of the chip */
#endif
#ifndef CAN_CLOCKED
#define CAN_CLOCKED 0 /* 1: there is no crystal, but another chip's clock, as on a Nucleo */
#endif

#define CLOCK (CAN_CRYSTAL * 1000000)
/* A bit has so many periods of the crystal, and so many parts. A part takes DIVIDER periods. The
 * first part is that of the edge, and the bus is sampled when AFTER parts are left. */
enum { PERIODS = CAN_CRYSTAL * 1000 / CAN_KBITS };
enum { PARTS = PERIODS % 16 == 0 ? 16 : PERIODS % 12 == 0 ? 12 : PERIODS % 10 == 0 ? 10 : 8 };
enum { AFTER = 2, BEFORE = PARTS - 1 - AFTER, DIVIDER = PERIODS / PARTS };
_Static_assert(CAN_CRYSTAL * 1000 == CAN_KBITS * PARTS * DIVIDER && DIVIDER >= 1 && DIVIDER <= 1024,
               "this crystal cannot do this bit rate");
#undef BAUD
#define BAUD 0 /* no serial line */
enum { IRQ_SENT = 19, IRQ_RECEIVED = 20, IRQ_ERROR = 22, IRQS = 23 };
static void on_can(void);
#define INTERRUPTS [IRQ_SENT] = on_can, [IRQ_RECEIVED] = on_can, [IRQ_ERROR] = on_can
#include BOARD
_Static_assert(CAN_CRYSTAL >= 4 && CAN_CRYSTAL <= MAX_CRYSTAL, "the chip takes no such crystal");

/* The controller's registers have the names of the manual. */
#define CAN(offset) REGISTER(0x40006400 + (offset))
#define MCR CAN(0x00)
#define MSR CAN(0x04)
#define TSR CAN(0x08)
#define RF0R CAN(0x0C)
#define IER CAN(0x14)
#define ESR CAN(0x18)
#define BTR CAN(0x1C)
#define MAILBOX(number, offset) CAN(0x180 + 16 * (number) + (offset)) /* for sending */
#define FIFO(offset) CAN(0x1B0 + (offset))
#define FMR CAN(0x200)
#define FS1R CAN(0x20C)
#define FA1R CAN(0x21C)
#define FILTER(number, offset) CAN(0x240 + 8 * (number) + 4 * (offset))

enum { INRQ = 1, INAK = 1, FINIT = 1, ERRI = 4, BOFF = 4, EPVF = 2 };
enum { FMP = 3, FOVR = 0x10, RFOM = 0x20 }; /* bits of RF0R */
enum { FMPIE0 = 0x02, WAKES = 0x8401 };     /* bits of IER; WAKES are ERRIE, BOFIE and TMEIE */
enum { ID = 0, DLC = 4, LOW = 8, HIGH = 12, TXRQ = 1, RTR = 2, IDE = 4, LENGTH = 0x0F };
enum { RQCP = 0x010101, ABRQ = 0x808080, TME = 0x1C000000 }; /* bits of TSR, for all mailboxes */
enum { CODE = 24 }; /* lowest bit of TSR's number of an empty mailbox */
#define SILM (1U << 31)
#define LEC 0x70U /* bits of ESR; all ones: neither a frame nor an error since they were written */

/* ABOM: after bus-off the controller returns by itself, when it has seen 128 times 11 recessive
 * bits. RFLM: a frame that comes while its FIFO is full is lost, and not the one before it. DBF is
 * set after a reset. Without TXFP the lowest identifier goes first, so a report keeps its order. */
enum { DBF = 0x10000, ABOM = 0x40, RFLM = 0x08, OPTIONS = DBF | ABOM | RFLM };
enum { TIMING = 1 << 24 | (AFTER - 1) << 20 | (BEFORE - 1) << 16 | (DIVIDER - 1) };

#define IDENTIFIER(id) (CAN_EXTENDED ? (uint32_t)(id) << 3 | IDE : (uint32_t)(id) << 21)
#define MASK(count) (IDENTIFIER(-(count)) | IDE | RTR) /* lets in `count` identifiers, and no RTR */

enum { QUEUE = 16, FRAME = 8, FRAMES = (DUMPULSE_REPORT_SIZE + FRAME - 1) / FRAME };
enum { HEARTBEATS = 64, REPORT_AT = 64, REQUEST_AT = 127 }; /* counted from CAN_REPORTS */
enum { GIVE_UP = 2 };                                       /* s */

static dumpulse agent; /* zeros: no heartbeat has come yet */
static volatile uint8_t losses;
static bool has_joined; /* false until the first good frame: the controller only listens */

/* Packets on their way from the interrupt to the loop. Each count has one writer. Both wrap at 256,
 * which is a multiple of the size. */
static uint32_t queue[QUEUE][FRAME / 4];
static volatile uint8_t written, read;

/* A copy: the table changes while it leaves. */
static union {
    uint8_t bytes[FRAMES * FRAME];
    uint32_t words[FRAMES * FRAME / 4];
} report;
static volatile uint8_t left; /* frames of it that no mailbox has yet */
static uint16_t report_began; /* seconds */
static bool asked_again;

/* ---- The controller --------------------------------------------------------------------- */

/* Takes back what the controller has not sent. A frame that is on the bus goes on to its end. */
static void give_up_report(void)
{
    left = 0;
    TSR = ABRQ;
}

/* The timing can be set only in initialization mode, which begins when a frame on the bus has come
 * to its end. The controller leaves that mode when it has seen 11 recessive bits: nothing waits for
 * that here, as the bus may be broken for a long time. */
static void start_controller(void)
{
    MCR = OPTIONS | INRQ; /* without SLEEP, which a reset sets */
    while (!(MSR & INAK)) {
    }
    FMR |= FINIT;
    FS1R = 3; /* two filters of 32 bits; both have a mask and lead to FIFO 0, as after a reset */
    FILTER(0, 0) = IDENTIFIER(CAN_BASE);
    FILTER(0, 1) = MASK(HEARTBEATS);
    FILTER(1, 0) = IDENTIFIER(CAN_REPORTS + REQUEST_AT);
    FILTER(1, 1) = MASK(1);
    FA1R = 3;
    FMR &= ~(uint32_t)FINIT;
    BTR = TIMING | (has_joined ? 0 : SILM);
    ESR = LEC;
    MCR = OPTIONS;
}

static void count_loss(void)
{
    if (losses != UINT8_MAX)
        losses++;
}

/* Puts a frame into the queue, if it is a packet. Only a frame at a time: the FIFO needs a moment
 * until the next one can be read, and RFOM is set meanwhile. Then the interrupt comes again. */
static void take_frame(void)
{
    uint32_t *const packet = queue[written % QUEUE];

    packet[0] = FIFO(LOW);
    packet[1] = FIFO(HIGH);
    if ((FIFO(DLC) & LENGTH) == FRAME)
        written++;
    RF0R = RFOM;
}

static void fill_mailboxes(void)
{
    while (left != 0 && (TSR & TME)) {
        const unsigned at = (unsigned)FRAMES - left, number = TSR >> CODE & 3;
        MAILBOX(number, DLC) = at == FRAMES - 1 ? DUMPULSE_REPORT_SIZE % FRAME : FRAME;
        MAILBOX(number, LOW) = report.words[2 * at];
        MAILBOX(number, HIGH) = report.words[2 * at + 1];
        MAILBOX(number, ID) = IDENTIFIER(CAN_REPORTS + REPORT_AT + at) | TXRQ;
        left--;
    }
}

static void on_can(void)
{
    const uint32_t fifo = RF0R;

    if (fifo & FOVR) {
        RF0R = FOVR;
        count_loss();
    }
    if ((uint8_t)(written - read) == QUEUE)
        IER = WAKES; /* frames wait in the FIFO */
    else if ((fifo & FMP) && !(fifo & RFOM))
        take_frame();
    if (MSR & ERRI) {
        MSR = ERRI;
        if (ESR & BOFF) {
            count_loss();
            give_up_report(); /* it would be the first to disturb the bus again */
        }
    }
    TSR = TSR & RQCP;
    fill_mailboxes();
}

/* ---- The agent -------------------------------------------------------------------------- */

uint16_t dumpulse_get_timestamp(void)
{
    return board_time();
}

static bool may_send(void)
{
    return left == 0 && (TSR & TME) == TME;
}

/* One report leaves at a time. A request that comes meanwhile gets the next one. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; /* there is only one bus */
    asked_again = !may_send();
    if (asked_again)
        return;
    for (size_t i = 0; i != length; i++)
        report.bytes[i] = packet[i];
    report_began = seconds;
    __asm__ volatile("cpsid i" ::: "memory");
    left = FRAMES;
    fill_mailboxes();
    __asm__ volatile("cpsie i" ::: "memory");
}

static void process(const uint8_t *packet)
{
    (void)dumpulse_record(&agent, 0, 1, losses);
    (void)dumpulse_process_packet(&agent, packet, FRAME, NULL);
}

/* Runs when a report has waited for GIVE_UP seconds. If it is not acknowledged, the controller is
 * passive by then (RM0090 32.7.6), and the report is dropped. If it has only lost arbitrations, the
 * request gets a fresh report, so none that leaves is older than that. */
static void replace_report(void)
{
    give_up_report();
    if (!(ESR & EPVF))
        asked_again = true;
}

static bool is_idle(void)
{
    return read == written && !(asked_again && may_send());
}

static void serve(void)
{
    static const uint8_t request[FRAME] = DUMPULSE_REQUEST;

    if (!has_joined && !(ESR & LEC)) { /* a good frame came: our bit rate is that of the bus */
        has_joined = true;
        start_controller();
    }
    if (!may_send() && (uint16_t)(seconds - report_began) >= GIVE_UP)
        replace_report();
    if (read != written) {
        process((const uint8_t *)queue[read % QUEUE]);
        read++;
    }
    if (asked_again && may_send())
        process(request);
}

/* This is a function of its own so that firmware/costs/images.py sees that the image sets no
 * priority of an interrupt: the registers of priorities are at the offsets of the controller's. */
__attribute__((noinline)) static void start_interrupts(void)
{
    REGISTER(IRQ_ENABLE(0)) = 1U << IRQ_SENT | 1U << IRQ_RECEIVED | 1U << IRQ_ERROR;
    start_ticks(CLOCK);
}

int main(void)
{
    uint8_t fed = 0; /* the tick in which the watchdog was fed */

    record_boot(&agent, board_reset_cause());
    start_watchdog(250);
    start_crystal(CAN_CLOCKED); /* CAN needs 0.5 %, so an internal oscillator will not do */
    set_can_pins();
    start_interrupts();
    start_controller();
    for (;;) {
        const uint8_t now = board_ticks();
        if (now != fed) {
            fed = now;
            board_feed(); /* only here: it resets a chip whose loop or clock stands still */
        }
        IER = WAKES | FMPIE0;
        sleep_if(is_idle);
        serve();
    }
}

/* A model of the MCP2515; mcp2515.h describes it.   SPDX-License-Identifier: MIT
 *
 * Registers and bits have the names of the data sheet, DS20001801.
 */
#include "mcp2515.h"

#include <string.h>

/* Registers: table 11-1. */
enum { RXF0 = 0x00, CANSTAT = 0x0E, CANCTRL = 0x0F, RXF3 = 0x10 };
enum { TEC = 0x1C, REC = 0x1D, RXM0 = 0x20, RXM1 = 0x24, CNF3 = 0x28, CNF2 = 0x29, CNF1 = 0x2A };
enum { CANINTE = 0x2B, CANINTF = 0x2C, EFLG = 0x2D };
enum { TXB0 = 0x30, TXB1 = 0x40, RXB0 = 0x60, RXB1 = 0x70 };
/* Bits of CANCTRL, its modes, and bits of CANINTF, EFLG, TXBnCTRL, RXBnCTRL, SIDL, and DLC:
 * registers 10-1, 7-2, 6-3, 3-1, 4-1, 3-4, and 3-7. */
enum { REQOP = 0xE0 };
enum { NORMAL = 0x00, LISTEN_ONLY = 0x60, CONFIGURATION = 0x80 };
enum { MERRF = 0x80, ERRIF = 0x20, TX0IF = 0x04, RX1IF = 0x02, RX0IF = 0x01 };
enum { RX1OVR = 0x80, RX0OVR = 0x40, TXBO = 0x20, TXEP = 0x10, RXEP = 0x08 };
enum { TXWAR = 0x04, RXWAR = 0x02, EWARN = 0x01 };
enum { ABTF = 0x40, MLOA = 0x20, TXERR = 0x10, TXREQ = 0x08, TXP = 0x03 };
enum { RXM = 0x60, RXRTR = 0x08, BUKT = 0x04, BUKT1 = 0x02 };
enum { SID_LOW = 0xE0, SRR = 0x10, IDE = 0x08, EID_HIGH = 0x03 };
enum { RTR = 0x40 };
/* Instructions: table 12-1. */
enum { I_RESET = 0xC0, I_WRITE = 0x02, I_READ = 0x03, I_MODIFY = 0x05 };
enum { I_READ_RX0 = 0x90, I_READ_RX1 = 0x94, I_LOAD_TX0 = 0x40, I_RTS0 = 0x81 };

static uint8_t mode_of(const mcp2515 *chip)
{
    return chip->registers[CANSTAT] & REQOP;
}

/* ---- Registers -------------------------------------------------------------------------- */

void mcp2515_reset(mcp2515 *chip)
{
    memset(chip, 0, sizeof *chip);
    chip->registers[CANSTAT] = CONFIGURATION;
    chip->registers[CANCTRL] = CONFIGURATION | 0x07; /* CLKEN, CLKPRE 1:8 */
    chip->held = MCP2515_HOLD;
}

void mcp2515_pass(mcp2515 *chip, uint64_t periods)
{
    chip->held -= periods < chip->held ? periods : chip->held;
}

/* CANSTAT and CANCTRL appear in every row of 16. */
static uint8_t row_of(uint8_t address)
{
    address %= MCP2515_REGISTERS;
    return (address & 0x0E) == 0x0E ? address & 0x0F : address;
}

static bool is_filter(uint8_t at) /* true also for a mask */
{
    return at <= RXF0 + 0x0B || (at >= RXF3 && at <= RXF3 + 0x0B) || (at >= RXM0 && at < CNF3);
}

static uint8_t read_register(const mcp2515 *chip, uint8_t address)
{
    const uint8_t at = row_of(address);

    if (at == CANSTAT)
        return mode_of(chip);
    if (is_filter(at) && mode_of(chip) != CONFIGURATION)
        return 0; /* the note below registers 4-10 to 4-17 */
    return at == TEC ? (uint8_t)chip->tec : chip->registers[at];
}

static bool only_configured(uint8_t at)
{
    return is_filter(at) || (at >= CNF3 && at <= CNF1);
}

/* Which bits of a register an instruction may change. Bits that do not exist read as 0. */
static uint8_t writable(const mcp2515 *chip, uint8_t at)
{
    if (only_configured(at) && mode_of(chip) != CONFIGURATION)
        return 0;
    if (at > TXB0 && at < TXB1 && (chip->registers[TXB0] & TXREQ) != 0)
        return 0; /* the buffer's frame is requested */
    switch (at) {
    case CANSTAT:
    case TEC:
    case REC: return 0;
    case CNF3: return 0xC7;
    case EFLG: return RX1OVR | RX0OVR;
    case RXB0: return RXM | BUKT;
    case RXB1: return RXM;
    case TXB0: return TXREQ | TXP;
    default: break;
    }
    if (at < CNF3 && at % 4 == 1) /* SIDL of a filter or a mask; only a filter has EXIDE */
        return at < RXM0 ? SID_LOW | IDE | EID_HIGH : SID_LOW | EID_HIGH;
    return at > RXB0 ? 0 : 0xFF; /* a received frame can only be read */
}

bool mcp2515_takes_part(const mcp2515 *chip)
{
    return mode_of(chip) == NORMAL && (chip->registers[EFLG] & TXBO) == 0;
}

static bool wants_to_send(const mcp2515 *chip)
{
    return mcp2515_takes_part(chip) && (chip->sending || (chip->registers[TXB0] & TXREQ) != 0);
}

/* Sets the counters, and EFLG by them. A new error state is an interrupt. */
static void count_errors(mcp2515 *chip, unsigned tec, unsigned rec)
{
    uint8_t *bits = chip->registers;
    uint8_t flags = bits[EFLG] & (RX1OVR | RX0OVR);

    chip->tec = tec > 256 ? 256 : tec;
    bits[REC] = (uint8_t)(rec > 255 ? 255 : rec);
    flags |= tec > 255 ? TXBO : 0;
    flags |= tec > 127 ? TXEP : 0;
    flags |= rec > 127 ? RXEP : 0;
    flags |= tec > 95 ? TXWAR | EWARN : 0;
    flags |= rec > 95 ? RXWAR | EWARN : 0;
    if ((flags & ~bits[EFLG]) != 0)
        bits[CANINTF] |= ERRIF;
    bits[EFLG] = flags;
}

/* Takes back a request to send. If its frame is on the bus, that goes on, and TXREQ stays until the
 * frame is sent or fails. */
static void take_back(mcp2515 *chip)
{
    uint8_t *control = &chip->registers[TXB0];

    chip->aborted = chip->sending;
    *control = (uint8_t)(chip->sending ? *control | TXREQ : (*control & ~TXREQ) | ABTF);
}

/* Begins the mode that CANCTRL asks for, if it can begin now. */
static void change_mode(mcp2515 *chip, bool bus_rests)
{
    uint8_t *bits = chip->registers;
    const uint8_t wanted = bits[CANCTRL] & REQOP;

    if (wanted == mode_of(chip) || wants_to_send(chip) ||
        ((wanted == NORMAL || wanted == LISTEN_ONLY) && !bus_rests))
        return;
    bits[CANSTAT] = wanted;
    if (wanted == CONFIGURATION || wanted == LISTEN_ONLY)
        count_errors(chip, 0, 0);
}

void mcp2515_bus_rests(mcp2515 *chip)
{
    change_mode(chip, true);
}

static void write_register(mcp2515 *chip, uint8_t address, uint8_t value, uint8_t mask)
{
    const uint8_t at = row_of(address);
    uint8_t *bits = chip->registers;

    mask &= writable(chip, at);
    const uint8_t old = bits[at];
    bits[at] = (uint8_t)((old & ~mask) | (value & mask));
    if (at == CANCTRL) {
        change_mode(chip, false);
    } else if (at == CANINTF && bits[EFLG] != 0) {
        bits[at] |= old & ERRIF; /* its cause lasts: section 7.7 */
    } else if (at == RXB0) {
        bits[at] = (uint8_t)((bits[at] & ~BUKT1) | (bits[at] & BUKT) >> 1); /* a copy */
    } else if (at == TXB0) {
        if ((bits[at] & ~old & TXREQ) != 0)
            bits[at] &= (uint8_t)(~(ABTF | MLOA | TXERR));
        else if ((old & ~bits[at] & TXREQ) != 0)
            take_back(chip);
    }
}

/* For other registers, BIT MODIFY ignores its mask. */
static bool takes_masks(uint8_t at)
{
    return at == CANCTRL || (at >= CNF3 && at <= EFLG) || (at >= TXB0 && at % 0x10 == 0);
}

/* ---- SPI -------------------------------------------------------------------------------- */

void mcp2515_select(mcp2515 *chip, bool selected)
{
    chip->deaf = selected && chip->held != 0;
    if (!selected && chip->count != 0 && chip->instruction == I_RESET)
        chip->held = MCP2515_HOLD; /* counted from the end of the instruction */
    if (!selected && chip->count != 0 && (chip->instruction & 0xFB) == I_READ_RX0)
        chip->registers[CANINTF] &= (uint8_t)(~(chip->instruction == I_READ_RX1 ? RX1IF : RX0IF));
    chip->count = 0;
}

/* The first byte of an instruction. */
static void begin(mcp2515 *chip, uint8_t byte)
{
    chip->instruction = byte;
    if (byte == I_RESET) {
        mcp2515_reset(chip);
        chip->instruction = byte;
        chip->count = 1;
    } else if ((byte & 0xFB) == I_READ_RX0) {
        chip->address = byte == I_READ_RX1 ? RXB1 + 1 : RXB0 + 1;
    } else if (byte == I_LOAD_TX0) {
        chip->address = TXB0 + 1;
    } else if (byte == I_RTS0) {
        write_register(chip, TXB0, TXREQ, TXREQ);
    }
}

uint8_t mcp2515_spi(mcp2515 *chip, uint8_t byte)
{
    if (chip->deaf)
        return 0xFF;
    const unsigned at = chip->count++;

    if (at == 0) {
        begin(chip, byte);
        return 0xFF;
    }
    switch (chip->instruction) {
    case I_READ:
        if (at > 1)
            return read_register(chip, chip->address++);
        chip->address = byte;
        break;
    case I_WRITE:
        if (at > 1)
            write_register(chip, chip->address++, byte, 0xFF);
        else
            chip->address = byte;
        break;
    case I_MODIFY:
        if (at == 1)
            chip->address = byte;
        else if (at == 2)
            chip->mask = byte;
        else if (at == 3)
            write_register(chip, chip->address, byte,
                           takes_masks(row_of(chip->address)) ? chip->mask : 0xFF);
        break;
    case I_LOAD_TX0: write_register(chip, chip->address++, byte, 0xFF); break;
    case I_READ_RX0:
    case I_READ_RX1: return read_register(chip, chip->address++);
    default: break;
    }
    return 0xFF;
}

bool mcp2515_interrupt(const mcp2515 *chip)
{
    return (chip->registers[CANINTF] & chip->registers[CANINTE]) != 0;
}

/* ---- Errors ----------------------------------------------------------------------------- */

unsigned mcp2515_bit(const mcp2515 *chip)
{
    const uint8_t *bits = chip->registers;
    const unsigned propagation = bits[CNF2] & 7U, phase_1 = bits[CNF2] >> 3 & 7U;
    const unsigned phase_2 = bits[CNF3] & 7U; /* each is one less than its length */

    return 2 * ((bits[CNF1] & 0x3FU) + 1) * (1 + propagation + 1 + phase_1 + 1 + phase_2 + 1);
}

bool mcp2515_receive_failed(mcp2515 *chip)
{
    static const mcp2515_frame damaged = {.length = 8};
    const bool is_active = (chip->registers[EFLG] & (TXEP | RXEP)) == 0;

    if (mode_of(chip) == LISTEN_ONLY)
        mcp2515_receive(chip, &damaged);
    else if (!mcp2515_takes_part(chip))
        return false;
    else
        count_errors(chip, chip->tec, chip->registers[REC] + 1U);
    chip->registers[CANINTF] |= MERRF;
    return mcp2515_takes_part(chip) && is_active;
}

void mcp2515_bus_idle(mcp2515 *chip)
{
    if (mode_of(chip) == NORMAL && (chip->registers[EFLG] & TXBO) != 0)
        count_errors(chip, 0, 0);
}

/* ---- Sending ---------------------------------------------------------------------------- */

bool mcp2515_pending(const mcp2515 *chip, mcp2515_frame *frame)
{
    const uint8_t *bytes = &chip->registers[TXB0 + 1];

    if (!wants_to_send(chip))
        return false;
    memset(frame, 0, sizeof *frame);
    frame->id = (uint32_t)bytes[0] << 3 | bytes[1] >> 5;
    frame->extended = (bytes[1] & IDE) != 0;
    if (frame->extended)
        frame->id =
            frame->id << 18 | (uint32_t)(bytes[1] & 3) << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    frame->remote = (bytes[4] & RTR) != 0;
    frame->length = (bytes[4] & 0x0F) > 8 ? 8 : bytes[4] & 0x0F;
    if (!frame->remote)
        memcpy(frame->data, bytes + 5, frame->length);
    return true;
}

void mcp2515_begin(mcp2515 *chip)
{
    chip->sending = wants_to_send(chip);
}

void mcp2515_lost(mcp2515 *chip)
{
    chip->registers[TXB0] |= MLOA;
}

void mcp2515_sent(mcp2515 *chip)
{
    if (!wants_to_send(chip))
        return;
    chip->sending = chip->aborted = false;
    chip->registers[TXB0] &= (uint8_t)(~(TXREQ | TXERR));
    chip->registers[CANINTF] |= TX0IF;
    count_errors(chip, chip->tec == 0 ? 0 : chip->tec - 1, chip->registers[REC]);
    change_mode(chip, false);
}

/* The controller tries again by itself. While it is passive, it does not count frames that nobody
 * acknowledges. So a node that is alone never goes off the bus. */
void mcp2515_send_failed(mcp2515 *chip, bool unacknowledged)
{
    uint8_t *control = &chip->registers[TXB0];

    if (!wants_to_send(chip))
        return;
    *control |= TXERR;
    if (chip->aborted)
        *control = (uint8_t)((*control & ~TXREQ) | ABTF);
    chip->sending = chip->aborted = false;
    chip->registers[CANINTF] |= MERRF;
    const bool counts = !unacknowledged || chip->tec < 128;
    count_errors(chip, chip->tec + (counts ? 8U : 0U), chip->registers[REC]);
    change_mode(chip, false);
}

/* ---- Receiving -------------------------------------------------------------------------- */

/* The four registers of an identifier. For a standard frame, the last two are compared with the
 * first two bytes of data. */
static uint32_t four(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store_identifier(uint8_t bytes[4], const mcp2515_frame *frame)
{
    const uint32_t standard = frame->extended ? frame->id >> 18 : frame->id;

    bytes[0] = (uint8_t)(standard >> 3);
    bytes[1] = (uint8_t)(standard << 5);
    if (frame->extended) {
        bytes[1] |= (uint8_t)(IDE | (frame->id >> 16 & 3));
        bytes[2] = (uint8_t)(frame->id >> 8);
        bytes[3] = (uint8_t)frame->id;
    } else {
        bytes[1] |= frame->remote ? SRR : 0;
        bytes[2] = bytes[3] = 0;
    }
}

static bool passes(const mcp2515 *chip, unsigned filter, const mcp2515_frame *frame)
{
    const uint8_t *wanted =
        &chip->registers[filter < 3 ? RXF0 + 4 * filter : RXF3 + 4 * (filter - 3)];
    uint32_t mask = four(&chip->registers[filter < 2 ? RXM0 : RXM1]);
    uint8_t identifier[4];

    store_identifier(identifier, frame);
    if (!frame->extended) {
        mask &= 0xFFE0FFFFU;
        memcpy(identifier + 2, frame->data, 2);
        for (unsigned i = frame->length; i < 2; i++) /* bytes that the frame does not have */
            mask &= ~(0xFF00U >> 8 * i);
    }
    return ((wanted[1] & IDE) != 0) == frame->extended &&
           ((four(identifier) ^ four(wanted)) & mask) == 0;
}

/* The first of a buffer's filters that the frame passes. -1: none. */
static int hit(const mcp2515 *chip, unsigned first, unsigned last, const mcp2515_frame *frame)
{
    if (mode_of(chip) == LISTEN_ONLY ||
        (chip->registers[first == 0 ? RXB0 : RXB1] & RXM) == RXM) /* filters are off */
        return (int)first;
    for (unsigned i = first; i <= last; i++)
        if (passes(chip, i, frame))
            return (int)i;
    return -1;
}

static void store(mcp2515 *chip, uint8_t at, int filter, const mcp2515_frame *frame)
{
    uint8_t *bytes = &chip->registers[at];

    bytes[0] = (uint8_t)((bytes[0] & (at == RXB0 ? RXM | BUKT | BUKT1 : RXM)) |
                         (frame->remote ? RXRTR : 0) | filter);
    store_identifier(bytes + 1, frame);
    bytes[5] = (uint8_t)(frame->length | (frame->extended && frame->remote ? RTR : 0));
    memcpy(bytes + 6, frame->data, 8);
    chip->registers[CANINTF] |= at == RXB0 ? RX0IF : RX1IF;
}

static void overflow(mcp2515 *chip, uint8_t which)
{
    chip->registers[EFLG] |= which;
    chip->registers[CANINTF] |= ERRIF;
}

void mcp2515_receive(mcp2515 *chip, const mcp2515_frame *frame)
{
    const uint8_t mode = mode_of(chip), *bits = chip->registers;

    if (mode == CONFIGURATION || (bits[EFLG] & TXBO) != 0)
        return;
    if (mode == NORMAL && bits[REC] != 0)
        count_errors(chip, chip->tec, bits[REC] > 127 ? 127U : bits[REC] - 1U);
    const int first = hit(chip, 0, 1, frame);
    if (first >= 0) {
        if ((bits[CANINTF] & RX0IF) == 0)
            store(chip, RXB0, first, frame);
        else if ((bits[RXB0] & BUKT) == 0)
            overflow(chip, RX0OVR);
        else if ((bits[CANINTF] & RX1IF) == 0)
            store(chip, RXB1, first, frame);
        else
            overflow(chip, RX1OVR);
        return;
    }
    const int second = hit(chip, 2, 5, frame);
    if (second >= 0 && (bits[CANINTF] & RX1IF) == 0)
        store(chip, RXB1, second, frame);
    else if (second >= 0)
        overflow(chip, RX1OVR);
}

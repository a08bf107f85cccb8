/* An agent on an I²C bus: an ATmega328P that answers at an address.   SPDX-License-Identifier: MIT
 *
 * i2c_atmega328p.md describes what masters do. After each byte, the chip's interface holds the
 * clock low until the loop has served it. So all masters wait, and nothing gets lost.
 */
#undef BAUD
#define BAUD 0 /* no serial line */
#include BOARD

#include <util/twi.h>

#ifndef ADDRESS
#define ADDRESS 0x64
#endif
_Static_assert(ADDRESS >= 0x08 && ADDRESS <= 0x77, "I2C has reserved the other addresses");
enum { WAKE = _BV(TWEA) | _BV(TWEN), LISTEN = WAKE | _BV(TWINT) | _BV(TWIE) };

static dumpulse agent;                                   /* zeros: no heartbeat has come yet */
static uint8_t packet[DUMPULSE_PACKET_SIZE + 1], length; /* received bytes; 9: too many */
static uint8_t outgoing[DUMPULSE_REPORT_SIZE]; /* a copy: the table changes while it is read */
static uint16_t left;                          /* bytes of it that were not read yet */
static uint8_t faults;                         /* illegal starts and stops, and silent masters */
static uint8_t timeout; /* s, until a master that is silent in a packet is given up; 0: none */

uint16_t dumpulse_get_timestamp(void)
{
    return board_time();
}

ISR(TWI_vect)
{
    TWCR = WAKE; /* TWINT stays, and no interrupt comes until the loop has cleared it */
}

void dumpulse_send_packet(void *context, const uint8_t *report, size_t size)
{
    (void)context; /* there is only one bus */
    for (size_t i = 0; i != size; i++)
        outgoing[i] = report[i];
    left = (uint16_t)size;
}

static void serve(uint8_t status)
{
    timeout = 2;
    if (status == TW_SR_STOP || status == TW_ST_DATA_NACK || status == TW_BUS_ERROR)
        timeout = 0;
    if (status == TW_SR_SLA_ACK) {
        length = 0;
    } else if (status == TW_SR_DATA_ACK && length != sizeof packet) {
        packet[length++] = TWDR;
    } else if (status == TW_SR_STOP) { /* also a repeated start */
        (void)dumpulse_record(&agent, SERIAL_SELF, SERIAL_SELF_SENDER, faults);
        (void)dumpulse_process_packet(&agent, packet, length, NULL);
    } else if (status == TW_ST_SLA_ACK || status == TW_ST_DATA_ACK) {
        TWDR = left == 0 ? UINT8_MAX : outgoing[sizeof outgoing - left--];
    } else if (status == TW_BUS_ERROR && faults != UINT8_MAX) {
        faults++;
    }
    TWCR = status == TW_BUS_ERROR ? LISTEN | _BV(TWSTO) : LISTEN;
}

int main(void)
{
    const uint8_t cause = board_reset_cause();
    uint8_t fed = 0; /* the tick in which the watchdog was fed */

    board_start();
    record_boot(&agent, cause);
    TWAR = ADDRESS << 1;
    TWCR = LISTEN;
    for (;;) {
        const uint8_t now = board_ticks();
        if (now != fed) {
            board_feed();
            if (timeout != 0 && --timeout == 0) {
                if (faults != UINT8_MAX)
                    faults++;
                TWCR = 0; /* lets the wires go, which others need */
                TWCR = LISTEN;
            }
        }
        fed = now;
        cli();
        if (bit_is_clear(TWCR, TWINT) && board_ticks() == now) {
            sei(); /* works after the next instruction, so nothing can come in between */
            sleep_cpu();
        }
        sei();
        if (bit_is_set(TWCR, TWINT))
            serve(TW_STATUS);
    }
}

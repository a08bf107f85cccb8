/* Compares the model of the MCP2515 with its data sheet, DS20001801.
 *                                                             SPDX-License-Identifier: MIT
 * Addresses and bits are numbers here. They were read from the tables of the data sheet a second
 * time, so a wrong constant in the model cannot agree with itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../simulators/mcp2515.h"

static mcp2515 chip;

/* One instruction: sends bytes, and keeps the bytes that come back. */
static uint8_t back[32];
static void transfer(const uint8_t *out, size_t count)
{
    mcp2515_select(&chip, true);
    for (size_t i = 0; i < count; i++)
        back[i] = mcp2515_spi(&chip, out[i]);
    mcp2515_select(&chip, false);
}

#define SPI(...) transfer((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static uint8_t get(uint8_t address)
{
    SPI(0x03, address, 0);
    return back[2];
}

static void mode(uint8_t bits)
{
    SPI(0x05, 0x0F, 0xE0, bits);
    mcp2515_bus_rests(&chip);
}

static void bring(uint32_t id, bool extended, bool remote, uint8_t length, const char *data)
{
    mcp2515_frame frame = {id, extended, remote, length, {0}};
    memcpy(frame.data, data, remote ? 0 : length);
    mcp2515_receive(&chip, &frame);
}

static int fresh(void **state)
{
    (void)state;
    memset(&chip, 0xA5, sizeof chip);
    mcp2515_reset(&chip);
    mcp2515_pass(&chip, 128);
    return 0;
}

/* Section 8.1: the controller takes no SPI for 128 periods of its oscillator after power-on, and
 * after a RESET, which ends when chip select rises. It also ignores an instruction that began
 * before the end of this time. */
static void test_hold(void **state)
{
    (void)state;
    for (int by = 0; by < 2; by++) {
        if (by == 0) {
            mcp2515_reset(&chip);
        } else {
            mcp2515_select(&chip, true);
            mcp2515_spi(&chip, 0xC0);
            mcp2515_pass(&chip, 1000);
            mcp2515_select(&chip, false);
        }
        SPI(0x02, 0x2B, 0x11);
        mcp2515_pass(&chip, 127);
        SPI(0x02, 0x2B, 0x22);
        assert_int_equal(get(0x0E), 0xFF); /* nothing drives the line */
        mcp2515_select(&chip, true);
        mcp2515_pass(&chip, 1);
        mcp2515_spi(&chip, 0x02);
        mcp2515_spi(&chip, 0x2B);
        mcp2515_spi(&chip, 0x33);
        mcp2515_select(&chip, false);
        assert_int_equal(get(0x2B), 0);
        SPI(0x02, 0x2B, 0x44);
        assert_int_equal(get(0x2B), 0x44);
    }
}

/* Table 11-1 and section 10: after a reset. */
static void test_reset(void **state)
{
    (void)state;
    for (int by = 0; by < 2; by++) {
        assert_int_equal(get(0x0E), 0x80); /* configuration mode */
        assert_int_equal(get(0x0F), 0x87);
        static const uint8_t zeros[] = {0x1C, 0x1D, 0x28, 0x29, 0x2A, 0x2B,
                                        0x2C, 0x2D, 0x30, 0x60, 0x70};
        for (size_t i = 0; i < sizeof zeros; i++)
            assert_int_equal(get(zeros[i]), 0);
        SPI(0x02, 0x28, 1, 2, 3);
        SPI(0xC0);
        mcp2515_pass(&chip, 128);
    }
}

static void test_modes(void **state)
{
    static const uint8_t modes[] = {0x00, 0x60, 0x80};

    (void)state;
    for (size_t i = 0; i < sizeof modes; i++) {
        mode(modes[i]);
        assert_int_equal(get(0x0E) & 0xE0, modes[i]);
        const bool configuring = modes[i] == 0x80;
        for (uint8_t at = 0; configuring && at < 0x2B; at++) /* still the reset values */
            if ((at & 0x0F) < 0x0C)
                assert_int_equal(get(at), 0);
        /* These can be written in configuration mode only, and only the bits that they have. */
        static const uint8_t only[][2] = {{0x00, 0xFF}, {0x01, 0xEB}, {0x0B, 0xFF}, {0x10, 0xFF},
                                          {0x19, 0xEB}, {0x1B, 0xFF}, {0x20, 0xFF}, {0x21, 0xE3},
                                          {0x25, 0xE3}, {0x27, 0xFF}, {0x28, 0xC7}, {0x29, 0xFF},
                                          {0x2A, 0xFF}};
        for (size_t j = 0; j < sizeof only / sizeof only[0]; j++) {
            SPI(0x02, only[j][0], 0xFF);
            assert_int_equal(get(only[j][0]), configuring ? only[j][1] : 0);
        }
    }
    SPI(0x02, 0x1C, 9, 9); /* counters of errors cannot be written */
    SPI(0x02, 0x2D, 0x3F); /* nor states of errors */
    assert_int_equal(get(0x1C) | get(0x1D) | get(0x2D), 0);
}

/* Section 10.0: a mode begins when all requested frames are sent; OPMOD shows it. The normal mode
 * also waits until the bus has rested. Configuration mode clears the error counters. */
static void test_when_a_mode_begins(void **state)
{
    (void)state;
    SPI(0x05, 0x0F, 0xE0, 0);
    assert_int_equal(get(0x0E) & 0xE0, 0x80);
    assert_int_equal(get(0x0F) & 0xE0, 0);
    mcp2515_bus_rests(&chip);
    assert_int_equal(get(0x0E) & 0xE0, 0);
    SPI(0x81);
    mcp2515_begin(&chip);
    mode(0x80);
    assert_int_equal(get(0x0E) & 0xE0, 0);
    mcp2515_send_failed(&chip, false);
    assert_int_equal(get(0x1C), 8);
    mcp2515_sent(&chip);
    assert_int_equal(get(0x0E) & 0xE0, 0x80);
    assert_int_equal(get(0x1C), 0);
}

/* Section 3.6: a frame on the bus goes on although its request is taken back. Its buffer cannot be
 * written until the frame ends. If it fails, it is not tried again. */
static void test_taken_back(void **state)
{
    mcp2515_frame frame;

    (void)state;
    mode(0);
    for (int fails = 0; fails < 2; fails++) {
        SPI(0x40, 0xD0, 0x60, 0, 0, 1, 'a');
        SPI(0x81);
        mcp2515_begin(&chip);
        SPI(0x05, 0x30, 0x08, 0);
        assert_int_equal(get(0x30) & 0x08, 0x08);
        SPI(0x40, 0xD0, 0x60, 0, 0, 1, 'b');
        assert_true(mcp2515_pending(&chip, &frame));
        assert_int_equal(frame.data[0], 'a');
        if (fails)
            mcp2515_send_failed(&chip, true);
        else
            mcp2515_sent(&chip);
        assert_false(mcp2515_pending(&chip, &frame));
        assert_int_equal(get(0x30) & 0x48, fails ? 0x40 : 0);
        assert_int_equal(get(0x2C) & 0x04, fails ? 0 : 0x04);
        SPI(0x02, 0x2C, 0);
    }
    SPI(0x40, 0xD0, 0x60, 0, 0, 1, 'b');
    SPI(0x81);
    assert_true(mcp2515_pending(&chip, &frame));
    assert_int_equal(frame.data[0], 'b');
}

static void test_sending(void **state)
{
    mcp2515_frame frame;

    (void)state;
    mode(0);
    /* 18FE5083 as SID 10..0, EXIDE, EID 17..0; and RTR */
    SPI(0x40, 0xC7, 0xEA, 0x50, 0x83, 0x48, 0);
    SPI(0x81);
    assert_true(mcp2515_pending(&chip, &frame));
    assert_true(frame.extended && frame.remote);
    assert_int_equal(frame.id, 0x18FE5083);
    SPI(0x05, 0x30, 0x08, 0); /* taken back */
    assert_false(mcp2515_pending(&chip, &frame));
    assert_int_equal(get(0x30), 0x40); /* ABTF */
}

/* The bytes of a frame in a receive buffer, and what READ RX BUFFER gives. */
static void test_receiving(void **state)
{
    static const struct {
        uint32_t id;
        bool extended, remote;
        uint8_t bytes[5];
    } cases[] = {{0x683, false, false, {0xD0, 0x60, 0, 0, 2}},
                 {0x683, false, true, {0xD0, 0x70, 0, 0, 2}},
                 {0x18FE5083, true, false, {0xC7, 0xEA, 0x50, 0x83, 2}},
                 {0x18FE5083, true, true, {0xC7, 0xEA, 0x50, 0x83, 0x42}}};

    (void)state;
    SPI(0x02, 0x60, 0x60); /* RXM: any frame */
    mode(0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bring(cases[i].id, cases[i].extended, cases[i].remote, 2, "xy");
        assert_int_equal(get(0x60) & 0x08, cases[i].remote ? 0x08 : 0);
        SPI(0x90, 0, 0, 0, 0, 0, 0, 0);
        assert_memory_equal(back + 1, cases[i].bytes, 5);
        if (!cases[i].remote)
            assert_memory_equal(back + 6, "xy", 2);
        assert_int_equal(get(0x2C), 0); /* chip select rose: RX0IF is cleared */
    }
}

/* Filters 0 and 1 with mask 0 lead to buffer 0, 2 to 5 with mask 1 to buffer 1. */
static void test_filters(void **state)
{
    static const uint8_t filters[] = {0x00, 0x04, 0x08, 0x10, 0x14, 0x18};

    (void)state;
    SPI(0x02, 0x20, 0xFF, 0xE0, 0, 0);
    SPI(0x02, 0x24, 0xFF, 0xE0, 0, 0);
    for (uint8_t i = 0; i < 6; i++)
        SPI(0x02, filters[i], (uint8_t)(0x10 * (i + 1)), 0, 0, 0);
    mode(0);
    for (uint8_t i = 0; i < 6; i++) {
        const uint32_t id = 0x80U * (i + 1U);
        bring(id + 1, false, false, 0, "");
        bring(id << 18, true, false, 0, ""); /* EXIDE is not set: for standard frames only */
        assert_int_equal(get(0x2C), 0);
        bring(id, false, false, 0, "");
        assert_int_equal(get(0x2C), i < 2 ? 1 : 2);
        assert_int_equal(get(i < 2 ? 0x60 : 0x70) & 0x07, i); /* FILHIT */
        SPI(0x02, 0x2C, 0);
    }
    mode(0x80);
    SPI(0x02, 0x20, 0xFF, 0xE3, 0xFF, 0x00);
    SPI(0x02, 0x00, 0xC7, 0xEA, 0x50, 0x80); /* an extended filter, its last byte masked */
    SPI(0x02, 0x04, 0xC7, 0xEA, 0x50, 0x80);
    mode(0);
    bring(0x18FE5083, true, false, 0, "");
    assert_int_equal(get(0x2C), 1);
    SPI(0x02, 0x2C, 0);
    bring(0x18FE5183, true, false, 0, "");
    bring(0x18FE5083 >> 18, false, false, 0, "");
    assert_int_equal(get(0x2C), 0);
    mode(0x80); /* a standard frame: EID 15 to 0 are compared with two bytes of data */
    SPI(0x02, 0x20, 0xFF, 0xE0, 0xFF, 0x00);
    SPI(0x02, 0x00, 0x10, 0, 'x', 0);
    SPI(0x02, 0x04, 0x10, 0, 'x', 0);
    mode(0);
    bring(0x80, false, false, 2, "yz");
    assert_int_equal(get(0x2C), 0);
    bring(0x80, false, false, 2, "xz");
    assert_int_equal(get(0x2C), 1);
    SPI(0x02, 0x2C, 0);
    mode(0x80); /* EID 17 and 16 are compared with nothing */
    SPI(0x02, 0x20, 0xFF, 0xE3, 0, 0);
    SPI(0x02, 0x00, 0x10, 0x03, 0, 0);
    SPI(0x02, 0x04, 0x10, 0x03, 0, 0);
    SPI(0x02, 0x24, 0, 0, 0, 0); /* mask 1 lets everything through to buffer 1, by filter 2 */
    mode(0);
    bring(0x80, false, false, 0, "");
    assert_int_equal(get(0x2C), 1);
    bring(0x81, false, false, 0, "");
    assert_int_equal(get(0x2C), 3);
    assert_int_equal(get(0x70) & 0x07, 2);
}

/* Without BUKT a second frame is lost; with it, it rolls over, and only a third is. */
static void test_roll_over(void **state)
{
    (void)state;
    SPI(0x02, 0x70, 0x00);
    SPI(0x02, 0x24, 0xFF, 0xE0, 0, 0); /* buffer 1 has filters of its own, for 0x7F8 */
    for (int i = 0; i < 4; i++)
        SPI(0x02, (uint8_t)(i == 0 ? 0x08 : 0x0C + 4 * i), 0xFF, 0, 0, 0);
    mode(0);
    bring(1, false, false, 1, "a");
    bring(1, false, false, 1, "b");
    assert_int_equal(get(0x2C), 0x21); /* ERRIF, RX0IF */
    assert_int_equal(get(0x2D), 0x40); /* RX0OVR */
    SPI(0x90, 0, 0, 0, 0, 0, 0);
    assert_int_equal(back[6], 'a'); /* the first is kept */
    SPI(0x05, 0x2D, 0xC0, 0);
    SPI(0x02, 0x2C, 0);
    assert_int_equal(get(0x2D), 0);

    SPI(0x05, 0x60, 0x04, 0x04); /* BUKT, and its copy BUKT1 */
    assert_int_equal(get(0x60) & 0x06, 0x06);
    bring(1, false, false, 1, "c");
    bring(1, false, false, 1, "d");
    assert_int_equal(get(0x2C), 0x03);
    assert_int_equal(get(0x2D), 0);
    bring(1, false, false, 1, "e");
    SPI(0x05, 0x2C, 0x20, 0);
    assert_int_equal(get(0x2D), 0x80); /* RX1OVR */
    SPI(0x90, 0, 0, 0, 0, 0, 0);
    assert_int_equal(back[6], 'c');
    SPI(0x94, 0, 0, 0, 0, 0, 0);
    assert_int_equal(back[6], 'd');
    assert_int_equal(get(0x2C), 0x20);
}

/* Figure 6-1: warning at 96, passive at 128, off the bus above 255. */
static void test_error_states(void **state)
{
    mcp2515_frame frame;

    (void)state;
    SPI(0x02, 0x60, 0x60);
    mode(0);
    SPI(0x81);
    for (unsigned errors = 8; errors < 256; errors += 8) {
        mcp2515_send_failed(&chip, false);
        assert_int_equal(get(0x1C), errors);
        assert_int_equal(get(0x2D), errors >= 128 ? 0x15 : errors >= 96 ? 0x05 : 0);
        assert_int_equal(get(0x30) & 0x18, 0x18); /* TXERR, and TXREQ: it tries again */
    }
    SPI(0x02, 0x2C, 0);
    assert_int_equal(get(0x2C), 0x20); /* ERRIF stays while its cause lasts: section 7.7 */
    mcp2515_send_failed(&chip, false);
    assert_int_equal(get(0x2D), 0x35);
    assert_int_equal(get(0x2C), 0xA0); /* MERRF, and ERRIF: a state has begun */
    assert_false(mcp2515_pending(&chip, &frame));
    bring(1, false, false, 0, "");
    assert_int_equal(get(0x2C), 0xA0); /* nor does it receive */
    mcp2515_bus_idle(&chip);
    assert_int_equal(get(0x2D) | get(0x1C), 0);
    SPI(0x05, 0x2C, 0x20, 0);
    assert_int_equal(get(0x2C), 0x80);
    assert_true(mcp2515_pending(&chip, &frame)); /* the request is still there */
    for (int i = 0; i < 100; i++)
        mcp2515_send_failed(&chip, true); /* alone: passive, but never off */
    assert_int_equal(get(0x1C), 128);
    mcp2515_sent(&chip);
    assert_int_equal(get(0x1C), 127);
    assert_int_equal(get(0x2D), 0x05); /* no longer passive */
    for (int i = 0; i < 130; i++)
        mcp2515_receive_failed(&chip);
    assert_int_equal(get(0x1D), 130);
    assert_int_equal(get(0x2D), 0x0F);
    bring(1, false, false, 0, "");
    assert_int_equal(get(0x1D), 127); /* 119 to 127 */
}

static void test_what_is_heard_and_sent_while_it_is_configured(void **state)
{
    mcp2515_frame frame;

    (void)state;
    bring(1, false, false, 0, "");
    assert_int_equal(get(0x2C), 0);
    SPI(0x81);
    assert_false(mcp2515_pending(&chip, &frame));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_hold, fresh),
        cmocka_unit_test_setup(test_reset, fresh),
        cmocka_unit_test_setup(test_modes, fresh),
        cmocka_unit_test_setup(test_when_a_mode_begins, fresh),
        cmocka_unit_test_setup(test_sending, fresh),
        cmocka_unit_test_setup(test_taken_back, fresh),
        cmocka_unit_test_setup(test_receiving, fresh),
        cmocka_unit_test_setup(test_filters, fresh),
        cmocka_unit_test_setup(test_roll_over, fresh),
        cmocka_unit_test_setup(test_error_states, fresh),
        cmocka_unit_test_setup(test_what_is_heard_and_sent_while_it_is_configured, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

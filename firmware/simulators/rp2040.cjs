/* Runs an image on an RP2040: node rp2040.cjs IMAGE.uf2 [MS [DEAD]]   SPDX-License-Identifier: MIT
 *
 * stdin and stdout are its UART 0, which is as fast as the program reads it. Its time is that of
 * the wall clock. It starts as the chip's ROM does: the ROM itself is not there. After a reset by
 * the watchdog it starts again. Its crystal needs MS (default: 1) to oscillate after it is turned
 * on, and does not oscillate at all in the first DEAD starts (default: 0). */
const fs = require('fs');
const path = require('path');
const FOLDER = path.join(__dirname, '../../build/toolchains/rp2040js/package');
const { RP2040 } = require(FOLDER);
const BOOT = 256, BOOT_AT = 0x20041f00, SLICE = 1e6; // bytes, an address, ns
const CRYSTAL = 0x40024000, DOG = 0x40058000, VREG = 0x40064000;
const CHIP_RESET = 8, HAD_POR = 1 << 8; // data sheet, 2.10.6: a reset by the watchdog keeps it
const BAUD = 115200; // rp2040js itself has none

const flash = Buffer.alloc(1 << 20, 0xff);
const file = fs.readFileSync(process.argv[2]);
for (let at = 0; at < file.length; at += 512)
    file.copy(flash, file.readUInt32LE(at + 12) - 0x10000000, at + 32, at + 32 + 256);

function crc(bytes) { // CRC-32 as the ROM has it: not reflected, nothing is inverted at the end
    let sum = 0xffffffff;
    for (const byte of bytes) {
        sum ^= byte << 24;
        for (let bit = 0; bit < 8; bit++)
            sum = (sum << 1) ^ (sum < 0 ? 0x04c11db7 : 0);
    }
    return sum >>> 0;
}
const sum = crc(flash.subarray(0, BOOT - 4));
if (sum !== flash.readUInt32LE(BOOT - 4)) {
    console.error(`the CRC of the first 252 bytes is not in the image: 0x${sum.toString(16)}`);
    process.exit(1);
}

const [settles, dead] = [process.argv[3] ?? 1, process.argv[4] ?? 0].map(Number);
let coming = [], chip, began, starts = 0, reason = 0, sram;

/* rp2040js has a crystal that is stable at once, and a watchdog that counts microseconds. By the
 * data sheet the crystal is stable after STARTUP times 256 of its clocks (2.16), and the watchdog
 * counts clk_ref divided by TICK (4.7.2), twice by erratum RP2040-E1. */
function model_clocks() {
    const { clock, clocks, xoscFreq } = chip;
    const crystal = chip.findPeripheral(CRYSTAL), dog = chip.findPeripheral(DOG);
    const is_alive = ++starts > dead;
    let on_at = 0, divider = 0;
    Object.defineProperty(crystal, 'stable', {
        get: () => crystal.enabled && is_alive
            && clock.nanos - on_at >= (crystal.startup & 0x3fff) * 256e9 / xoscFreq,
        set: (on) => { on_at = on ? clock.nanos : on_at; },
    });
    const count = () => { dog.timer.frequency = divider ? 2 * clocks.refFreq / divider : 0; };
    for (const [part, offset, follow] of [
        [dog, 0x2c, (value) => { divider = value & 0x1ff; }],
        [clocks, 0x30, (value) => {
            if (value & 2 && !(is_alive && clock.nanos - on_at >= settles * 1e6)) {
                console.error('the chip stops: its clock is a crystal that does not oscillate');
                process.exit(1);
            }
        }]]) {
        const write = part.writeUint32.bind(part);
        part.writeUint32 = (at, value) => {
            write(at, value);
            if (at === offset) {
                follow(value);
                count();
            }
        };
    }
    count();
}

function start() {
    chip = new RP2040();
    chip.logger = { debug() {}, info() {}, warn() {}, error: (...words) => console.error(...words) };
    chip.flash.set(flash);
    chip.sram.set(sram ?? []);
    chip.sram.set(flash.subarray(0, BOOT), BOOT_AT - 0x20000000);
    chip.clkSys = chip.clkPeri = chip.roscFreq;
    chip.core.PC = BOOT_AT;
    const uart = chip.uart[0];
    uart.onByte = (byte) => {
        if (uart.wordLength !== 8 || Math.abs(uart.baudRate / BAUD - 1) > 0.02)
            throw new Error(`it sends ${uart.wordLength} bits at ${uart.baudRate} baud`);
        fs.writeSync(1, Buffer.of(byte));
    };
    const dog = chip.findPeripheral(DOG);
    dog.reason = reason;
    chip.findPeripheral(VREG).readUint32 = (at) => at === CHIP_RESET ? HAD_POR : 0;
    dog.onWatchdogTrigger = () => {
        reason = dog.reason; // 1: its timer, 2: forced (4.7.6)
        sram = chip.sram;
        chip.writeUint32(DOG, 0); // it is off, or it would trigger without end
        chip = null;
    };
    model_clocks();
    began = Date.now();
}

function run() {
    if (!chip)
        start();
    const { clock, core, uart: [uart] } = chip;
    const end = clock.nanos + SLICE;
    while (chip && clock.nanos < end) {
        if (coming.length && !uart.rxFIFO.full && uart.enabled)
            uart.feedByte(coming.shift());
        if (core.waiting && !core.interruptsUpdated)
            clock.tick(Math.min(clock.nanosToNextAlarm || SLICE, end - clock.nanos));
        else
            clock.tick(core.executeInstruction() * 1e9 / chip.clkSys);
    }
    setTimeout(run, Math.max(0, clock.nanos / 1e6 - (Date.now() - began)));
}

process.stdin.on('data', (bytes) => coming.push(...bytes));
process.stdin.on('end', () => process.exit());
run();

/* Runs an image on an RP2040: node rp2040.cjs IMAGE.uf2   SPDX-License-Identifier: MIT
 *
 * stdin and stdout are its UART 0, which is as fast as the program reads it. Its time is that of
 * the wall clock. It starts as the chip's ROM does: the ROM itself is not there. After a reset by
 * the watchdog it starts again. */
const fs = require('fs');
const path = require('path');
const FOLDER = path.join(__dirname, '../../build/toolchains/rp2040js/package');
const { RP2040 } = require(FOLDER);
const BOOT = 256, BOOT_AT = 0x20041f00, DOG = 0x40058000, SLICE = 1e6; // bytes, addresses, ns

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

let coming = [], chip, began;

function start() {
    chip = new RP2040();
    chip.logger = { debug() {}, info() {}, warn() {}, error: (...words) => console.error(...words) };
    chip.flash.set(flash);
    chip.sram.set(flash.subarray(0, BOOT), BOOT_AT - 0x20000000);
    chip.clkSys = chip.clkPeri = chip.roscFreq;
    chip.core.PC = BOOT_AT;
    chip.uart[0].onByte = (byte) => fs.writeSync(1, Buffer.of(byte));
    chip.findPeripheral(DOG).onWatchdogTrigger = () => {
        chip.writeUint32(DOG, 0); // it is off, or it would trigger without end
        chip = null;
    };
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

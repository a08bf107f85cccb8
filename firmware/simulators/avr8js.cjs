/* Runs an image of an ATmega328P or an ATtiny85 in avr8js.   SPDX-License-Identifier: MIT
 *
 * Its standard input is JSON; what is on the pins and the lines comes from a run in simavr:
 *     mcu, hertz      the chip, and its clock
 *     baud            of its line, if that has pins and no UART
 *     end             the cycle in which it ends
 *     flash, eeprom   their first bytes, hexadecimal
 *     came            [cycle, byte]...: when a byte to the chip begins
 *     int             [cycle, level]...: when INT0, which is PD2 or PB2, has another level
 *     answers         the bytes that come back on SPI, in their order
 *     pins            those whose changes are printed, such as "B5"
 *     cause           what MCUSR has at first
 *     entry, wake     cycles until an interrupt's vector, and more of them from sleep
 *     dividers        of timers, in place of their own: a planted mistake
 * It prints events as serial_board.c and can_board.c do.
 *
 * avr8js lacks these, and they are here: SLEEP; that the instruction after SEI comes before an
 * interrupt (ATmega328P, 7.7); that the EEPROM requests no interrupt while it writes (8.6.3); that
 * only a one, or its interrupt, clears TXC0 (20.6.3); a reset of the peripherals. */
const path = require('path');
const avr = require(path.join(__dirname, '../../build/toolchains/avr8js/package'));
const job = JSON.parse(require('fs').readFileSync(0));
const SEI = 0x9478, SLEEP = 0x9588, MCUSR = 0x54, WDRF = 8, EEPE = 2, TXC = 0x40;
const INT_PIN = 2, OWN_ENTRY = 2; // cycles that avr8js has for an interrupt
const OUTSIDE = 0x100; // of the bytes that avr8js counts as RAM: the registers

/* Addresses are those of data, and of words of the flash: the data sheets' register summaries, and
 * the tables of interrupts: ATmega328P (DS40002061), 12; ATtiny85 (2586Q), 9.1. */
const mega = {
    ram: 0x900, sleep: 0x53, sleepEnabled: 1, hasLines: true,
    ports: { B: avr.portBConfig, C: avr.portCConfig, D: avr.portDConfig }, int: 'D',
    timers: [avr.timer0Config, avr.timer1Config, avr.timer2Config],
    clock: avr.clockConfig, eeprom: avr.eepromConfig, watchdog: avr.watchdogConfig,
};
const int0 = { EICR: 0x55, EIMSK: 0x5b, EIFR: 0x5a, index: 6, iscOffset: 0, interrupt: 1 };
const tiny = {
    ram: 0x260, sleep: 0x55, sleepEnabled: 0x20, int: 'B',
    ports: { B: { PIN: 0x36, DDR: 0x37, PORT: 0x38, externalInterrupts: [, , int0] } },
    timers: [{
        ...avr.timer0Config, compAInterrupt: 0xa, compBInterrupt: 0xb, ovfInterrupt: 5,
        TCCRA: 0x4a, TCCRB: 0x53, TCNT: 0x52, OCRA: 0x49, OCRB: 0x48, TIFR: 0x58, TIMSK: 0x59,
        TOV: 2, OCFA: 16, OCFB: 8, TOIE: 2, OCIEA: 16, OCIEB: 8,
        compPortA: 0x38, compPinA: 0, compPortB: 0x38, compPinB: 1, externalClockPort: 0,
    }, { // timer 1, as far as the firmware uses it: CS10 to CS13 are all 1, and TCNT1 counts to 255
        ...avr.timer0Config, compAInterrupt: 3, compBInterrupt: 9, ovfInterrupt: 4,
        TCCRA: 0x4c, TCCRB: 0x50, TCNT: 0x4f, OCRA: 0x4e, OCRB: 0x4b, TIFR: 0x58, TIMSK: 0x59,
        TOV: 4, OCFA: 64, OCFB: 32, TOIE: 4, OCIEA: 64, OCIEB: 32, dividers: { 7: 16384 },
        compPortA: 0x38, compPinA: 1, compPortB: 0x38, compPinB: 4, externalClockPort: 0,
    }],
    clock: { CLKPR: 0x46 },
    eeprom: { eepromReadyInterrupt: 6, EECR: 0x3c, EEDR: 0x3d, EEARL: 0x3e, EEARH: 0x3f },
    watchdog: { watchdogInterrupt: 0xc, MCUSR, WDTCSR: 0x41 },
};
const chip = job.mcu === 'attiny85' ? tiny : mega;

const flash = new Uint16Array(0x4000).fill(0xffff);
new Uint8Array(flash.buffer).set(Buffer.from(job.flash, 'hex'));
const eeprom = new avr.EEPROMMemoryBackend(1024);
eeprom.memory.set(Buffer.from(job.eeprom, 'hex'));
const write = job.hertz * 0.0034 / 2; // the manual's 3.4 ms for both halves, not 3.6
const memory = { ...chip.eeprom, eraseCycles: write, writeCycles: write };
const levels = {};
let cpu, usart, ports, sleeping, boots = 0;

function print(event, value) {
    console.log(`${event} ${value.toString(16).padStart(2, '0')} at ${cpu.cycles}`);
}

function show(pin, level) {
    if (level !== (levels[pin] || 0))
        console.log(`pin ${pin} ${level} at ${cpu.cycles}`);
    levels[pin] = level;
}

function addLines() {
    usart = new avr.AVRUSART(cpu, avr.usart0Config, job.hertz);
    usart.onByteTransmit = (byte) => print('sent', byte);
    const { UDR, UCSRA } = avr.usart0Config;
    for (const register of [UDR, UCSRA]) {
        const write = cpu.writeHooks[register];
        cpu.writeHooks[register] = (value, ...others) => {
            const stays = cpu.data[UCSRA] & TXC & (register === UCSRA ? ~value : TXC);
            const done = write(value, ...others);
            cpu.data[UCSRA] |= stays;
            return done;
        };
    }
    const spi = new avr.AVRSPI(cpu, avr.spiConfig, job.hertz);
    spi.onByte = (byte) => cpu.addClockEvent(() => {
        print('sent', byte);
        spi.completeTransfer(job.answers.shift());
    }, spi.transferCycles);
}

/* The timers of an ATtiny85 have TIFR and TIMSK in common, and only ones clear flags (11.9.7). */
function shareRegisters(timers) {
    const { TIFR, TIMSK } = tiny.timers[0];
    const each = timers.flatMap(({ OVF, OCFA, OCFB }) => [OVF, OCFA, OCFB]);
    cpu.writeHooks[TIFR] = (value) => {
        each.forEach((interrupt) => cpu.clearInterruptByFlag(interrupt, value));
        return true;
    };
    cpu.writeHooks[TIMSK] = (value) =>
        each.forEach((interrupt) => cpu.updateInterruptEnable(interrupt, value));
}

function boot(cycle, cause) {
    const flags = cpu ? cpu.data[MCUSR] : 0; // only the program clears them (11.9.1)
    cpu = new avr.CPU(flash, chip.ram - OUTSIDE);
    cpu.cycles = cycle;
    cpu.data[MCUSR] = flags | cause;
    cpu.reset = () => { throw WDRF; }; // only the watchdog calls it
    sleeping = false;
    print('boot', ++boots);
    const timers = chip.timers.map((config) => new avr.AVRTimer(
        cpu, { ...config, dividers: { ...config.dividers, ...job.dividers } }));
    if (!chip.hasLines)
        shareRegisters(timers);
    const { EER } = new avr.AVREEPROM(cpu, eeprom, memory);
    const control = chip.eeprom.EECR, writeControl = cpu.writeHooks[control];
    cpu.writeHooks[control] = (...values) => {
        const done = writeControl(...values);
        if (cpu.data[control] & EEPE)
            cpu.clearInterrupt(EER, false);
        return done;
    };
    new avr.AVRWatchdog(cpu, chip.watchdog, new avr.AVRClock(cpu, job.hertz, chip.clock));
    if (chip.hasLines)
        addLines();
    ports = {};
    for (const [name, config] of Object.entries(chip.ports)) {
        const port = ports[name] = new avr.AVRIOPort(cpu, config);
        const high = [avr.PinState.High, avr.PinState.InputPullUp];
        port.addListener(() => job.pins.filter((pin) => pin[0] === name).forEach(
            (pin) => show(pin, +high.includes(port.pinState(+pin[1])))));
    }
    ports[chip.int].setPin(INT_PIN, true);
    job.pins.forEach((pin) => show(pin, 0));
}

function step() {
    while (job.came.length && job.came[0][0] + usart.cyclesPerChar <= cpu.cycles)
        usart.writeByte(job.came.shift()[1], true);
    while (job.int.length && job.int[0][0] <= cpu.cycles)
        ports[chip.int].setPin(INT_PIN, job.int.shift()[1] !== 0);
    if (!sleeping) {
        const opcode = flash[cpu.pc];
        sleeping = opcode === SLEEP && (cpu.data[chip.sleep] & chip.sleepEnabled) !== 0;
        avr.avrInstruction(cpu);
        if (opcode === SEI)
            return;
    } else if (cpu.nextInterrupt < 0) {
        const next = [job.end];
        if (cpu.nextClockEvent)
            next.push(cpu.nextClockEvent.cycles);
        if (job.came.length)
            next.push(job.came[0][0] + usart.cyclesPerChar);
        if (job.int.length)
            next.push(job.int[0][0]);
        cpu.cycles = Math.max(cpu.cycles, Math.min(...next));
    }
    const stack = cpu.SP;
    cpu.tick();
    if (cpu.SP !== stack) {
        cpu.cycles += job.entry - OWN_ENTRY + (sleeping ? job.wake : 0);
        sleeping = false;
    }
}

if (!chip.hasLines)
    for (const [begin, byte] of job.came.splice(0)) {
        const bits = 0x200 | byte << 1; // a start bit, data, a stop bit
        for (let bit = 0; bit < 10; bit++)
            job.int.push([begin + Math.floor(bit * job.hertz / job.baud), bits >> bit & 1]);
    }
boot(0, job.cause);
while (cpu.cycles < job.end)
    try {
        step();
    } catch (cause) {
        if (cause !== WDRF)
            throw cause;
        boot(cpu.cycles, cause);
    }
console.log(`eeprom ${Buffer.from(eeprom.memory).toString('hex')}`);
console.log(`boots ${boots}`);

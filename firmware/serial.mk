# The images with a serial line: `make firmware`.   SPDX-License-Identifier: MIT
AVR_IMAGES := uart_atmega328p uart_attiny85 sender_attiny13
SERIAL_IMAGES := $(AVR_IMAGES)
FIRMWARE += $(SERIAL_IMAGES:%=build/firmware/%.elf)

CHIP_uart_atmega328p := -mmcu=atmega328p -DF_CPU=16000000UL
CHIP_uart_attiny85 := -mmcu=attiny85 -DF_CPU=8000000UL
CHIP_sender_attiny13 := -mmcu=attiny13a -DF_CPU=1200000UL

# hanging/ has the same, but for a packet that hangs the loop: a test of the watchdog.
FIRMWARE_FLAGS := -std=c11 -Os -g -ffunction-sections -fdata-sections -Wl,--gc-sections \
                  $(WARNINGS) -I. -Ifirmware
HANGING := -Wl,--wrap=dumpulse_process_packet tests/firmware_hang.c
$(AVR_IMAGES:%=build/firmware/%.elf): build/firmware/%.elf: firmware/%.c firmware/serial.h $(LIBRARY)
	@mkdir -p $(@D)
	@avr-gcc $(CHIP_$*) $(FIRMWARE_FLAGS) $(filter %.c,$^) -o $@

$(AVR_IMAGES:%=build/firmware/hanging/%.elf): build/firmware/hanging/%.elf: \
        build/firmware/%.elf tests/firmware_hang.c
	@mkdir -p $(@D)
	@avr-gcc $(CHIP_$*) $(FIRMWARE_FLAGS) $(HANGING) firmware/$*.c dumpulse.c -o $@

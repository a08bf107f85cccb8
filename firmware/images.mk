# The images for boards: `make firmware`.   SPDX-License-Identifier: MIT
IMAGES := uart_atmega328p uart_attiny85 sender_attiny13 uart_mps2-m0plus uart_mps2-m4 uart_virt can_avr
FIRMWARE := $(IMAGES:%=build/firmware/%.elf)

AVR_CC := avr-gcc
ARM_CC := arm-none-eabi-gcc -mthumb -ffreestanding -nostdlib -T firmware/uart_mps2.ld
RISCV_CC := riscv64-unknown-elf-gcc -march=rv32imac_zicsr -mabi=ilp32 -ffreestanding -nostdlib \
            -mno-relax -T firmware/uart_virt.ld
CC_uart_atmega328p := $(AVR_CC) -mmcu=atmega328p -DF_CPU=16000000UL
CC_uart_attiny85 := $(AVR_CC) -mmcu=attiny85 -DF_CPU=8000000UL
CC_sender_attiny13 := $(AVR_CC) -mmcu=attiny13a -DF_CPU=1200000UL
CC_uart_mps2-m0plus := $(ARM_CC) -mcpu=cortex-m0plus
CC_uart_mps2-m4 := $(ARM_CC) -mcpu=cortex-m4
CC_uart_virt := $(RISCV_CC)
CC_can_avr := $(AVR_CC) -mmcu=atmega328p -DF_CPU=16000000UL
CC_can_avr-29 := $(CC_can_avr) -DCAN_BASE=0x18FF5080 -DCAN_EXTENDED=1
FIRMWARE_FLAGS := -std=c11 -Os -g -ffunction-sections -fdata-sections -Wl,--gc-sections \
                  -Wl,--build-id=none $(WARNINGS) -I. -Ifirmware
FIRMWARE_SHARED := firmware/serial.h firmware/images.mk $(wildcard firmware/*.ld) $(LIBRARY)

# Of uart_mps2-m4, the source is uart_mps2.c.
.SECONDEXPANSION:
IMAGE_SOURCES = firmware/$$(firstword $$(subst -, ,$$*)).c $(FIRMWARE_SHARED)
VARIANTS := can_avr-29
$(FIRMWARE) $(VARIANTS:%=build/firmware/%.elf): build/firmware/%.elf: $(IMAGE_SOURCES)
	@mkdir -p $(@D)
	@$(CC_$*) $(FIRMWARE_FLAGS) $(filter %.c,$^) -lgcc -o $@

# What the compiler reports of each function's stack, for bench/firmware.py. It warns that it says
# nothing of a naked function, which -w alone silences.
STACKS := $(patsubst %,build/firmware/%.su,$(IMAGES) $(VARIANTS))
$(STACKS): build/firmware/%.su: $(IMAGE_SOURCES)
	@mkdir -p build/firmware/$*
	@for source in $(filter %.c,$^); do \
	    $(CC_$*) $(FIRMWARE_FLAGS) -w -fstack-usage -c $$source -o build/firmware/$*/$$(basename $$source .c).o \
	        || exit 1; \
	done
	@cat $(patsubst %.c,build/firmware/$*/%.su,$(notdir $(filter %.c,$^))) >$@
$(STACKS): | $(READY)

# The same, but for a packet that hangs the loop: a test of the watchdog.
$(IMAGES:%=build/firmware/hanging/%.elf): build/firmware/hanging/%.elf: tests/firmware_hang.c $(IMAGE_SOURCES)
	@mkdir -p $(@D)
	@$(CC_$*) $(FIRMWARE_FLAGS) -Wl,--wrap=dumpulse_process_packet $(filter %.c,$^) -lgcc -o $@

TEST_FIRMWARE += tests/test_serial_firmware.py

firmware-size: $(FIRMWARE) | $(READY) ##! flash, RAM, stack, cycles of each image, against budgets
	@$(PYTHON) -m bench.firmware

try: $(FIRMWARE) | $(READY) ##! simulate a board, and ask it: BOARD=uart_atmega328p
	@$(PYTHON) -m sim.boards "$(BOARD)"

.PHONY: try firmware-size

# The images for boards (`make firmware`), and the programs that simulate boards with an AVR.
# sim/boards.py says how each image is simulated.   SPDX-License-Identifier: MIT
IMAGES := uart_atmega328p uart_attiny85 uart_mps2-m0plus uart_mps2-m4 uart_virt sender_attiny13 \
          can_avr can_avr-29 watch_atmega328p can_avr-watch
FIRMWARE := $(IMAGES:%=build/firmware/%.elf)

AVR_CC := avr-gcc
ARM_CC := arm-none-eabi-gcc -mthumb -ffreestanding -nostdlib -T firmware/uart_mps2.ld
RISCV_CC := riscv64-unknown-elf-gcc -march=rv32imac_zicsr -mabi=ilp32 -ffreestanding -nostdlib \
            -mno-relax -T firmware/uart_virt.ld
CC_uart_atmega328p := $(AVR_CC) -mmcu=atmega328p -DF_CPU=16000000UL
CC_uart_attiny85 := $(AVR_CC) -mmcu=attiny85 -DF_CPU=8000000UL
CC_uart_mps2-m0plus := $(ARM_CC) -mcpu=cortex-m0plus
CC_uart_mps2-m4 := $(ARM_CC) -mcpu=cortex-m4
CC_uart_virt := $(RISCV_CC)
CC_sender_attiny13 := $(AVR_CC) -mmcu=attiny13a -DF_CPU=1200000UL
CC_can_avr := $(AVR_CC) -mmcu=atmega328p -DF_CPU=16000000UL
CC_can_avr-29 := $(CC_can_avr) -DCAN_BASE=0x18FF5080 -DCAN_EXTENDED=1
CC_watch_atmega328p := $(CC_uart_atmega328p) -DWATCH
CC_can_avr-watch := $(CC_can_avr) -DWATCH -DWATCH_ON_C
ALSO_watch_atmega328p := firmware/uart_atmega328p.c $(WATCH)
ALSO_can_avr-watch := firmware/watch_atmega328p.c $(WATCH)
FIRMWARE_FLAGS := -std=c11 -Os -g -ffunction-sections -fdata-sections -Wl,--gc-sections \
                  -Wl,--build-id=none $(WARNINGS) -I. -Ifirmware
FIRMWARE_SHARED := $(wildcard firmware/*.h firmware/*.ld) firmware/images.mk $(LIBRARY)

# The source of an image has the image's name up to a "-": uart_mps2-m4 is made from uart_mps2.c.
# ALSO_ has the other sources of an image.
.SECONDEXPANSION:
IMAGE_SOURCES = firmware/$$(firstword $$(subst -, ,$$*)).c $$(ALSO_$$*) $(FIRMWARE_SHARED)
$(FIRMWARE): build/firmware/%.elf: $(IMAGE_SOURCES)
	@mkdir -p $(@D)
	@$(CC_$*) $(FIRMWARE_FLAGS) $(filter %.c,$^) -lgcc -o $@

# The stack of each function, as the compiler reports it, for bench/firmware.py. The compiler warns
# that it cannot tell the stack of a naked function. Only -w turns that warning off.
STACKS := $(IMAGES:%=build/firmware/%.su)
$(STACKS): build/firmware/%.su: $(IMAGE_SOURCES)
	@mkdir -p build/firmware/$*
	@for source in $(filter %.c,$^); do \
	    object=build/firmware/$*/$$(basename $$source .c).o; \
	    $(CC_$*) $(FIRMWARE_FLAGS) -w -fstack-usage -c $$source -o $$object || exit 1; \
	done
	@cat $(patsubst %.c,build/firmware/$*/%.su,$(notdir $(filter %.c,$^))) >$@

# The same images with one difference: a certain packet makes the loop hang. They test the watchdog.
HANGING := $(IMAGES:%=build/firmware/hanging/%.elf)
$(HANGING): build/firmware/hanging/%.elf: tests/firmware_hang.c $(IMAGE_SOURCES)
	@mkdir -p $(@D)
	@$(CC_$*) $(FIRMWARE_FLAGS) -Wl,--wrap=dumpulse_process_packet $(filter %.c,$^) -lgcc -o $@

# Programs that run AVR code in simavr. Each gets its name at the end, when it is complete: another
# process may be running the old one, or building the same.
SIMULATORS := $(addprefix build/sim/,avr avr_uart serial_board can_board)
build/sim/can_board: sim/mcp2515.c sim/mcp2515.h
$(SIMULATORS): build/sim/%: sim/%.c sim/avr_host.h
	@mkdir -p $(@D)
	@gcc -std=gnu11 -O2 -Wall -Wextra -Werror $(filter %.c,$^) -lsimavr -lelf -o $@.$$$$ && \
	    mv $@.$$$$ $@

$(FIRMWARE) $(STACKS) $(HANGING) $(SIMULATORS): | $(READY)

TEST_FIRMWARE := tests/test_serial_firmware.py tests/test_firmware_can.py \
                 tests/test_watch_firmware.py

firmware-size: $(FIRMWARE) | $(READY) ##! flash, RAM, stack, cycles of each image, against budgets
	@$(PYTHON) -m bench.firmware

try: $(FIRMWARE) | $(READY) ##! simulate a board, and ask it: BOARD=uart_atmega328p
	@$(PYTHON) -m sim.boards "$(BOARD)"

.PHONY: try firmware-size

# The agent on a CAN bus, and what its tests run it with.   SPDX-License-Identifier: MIT
FIRMWARE += build/firmware/can_avr.elf
CAN_SIM := firmware/sim/mcp2515.c firmware/sim/mcp2515.h

build/firmware/can_avr.elf build/firmware/can_avr_29.elf: firmware/can_avr.c $(LIBRARY)
	@tools/setup gcc-avr avr-libc binutils-avr
	@mkdir -p $(@D)
	@avr-gcc -mmcu=atmega328p -std=c99 -Os -Wall -Wextra -Werror $(MORE) -I. $(filter %.c,$^) -o $@
build/firmware/can_avr_29.elf: MORE := -DCAN_BASE=0x18FF5080 -DCAN_EXTENDED=1

build/avr_can: firmware/sim/avr_can.c $(CAN_SIM) sim/avr_host.h
	@mkdir -p $(@D)
	@gcc -std=gnu11 -O2 -Wall -Wextra -Werror -Isim $(filter %.c,$^) -lsimavr -lelf -o $@

build/mcp2515: tests/mcp2515.c $(CAN_SIM)
	@mkdir -p $(@D)
	@gcc -std=c99 -O1 -g $(WARNINGS) -fsanitize=address,undefined -fno-sanitize-recover=all \
	    $(filter %.c,$^) -lcmocka -o $@

# What tests/test_can.py and tests/test_firmware_can.py need besides.
CAN_PROGRAMS := build/firmware/can_avr_29.elf build/avr_can build/mcp2515
$(CAN_PROGRAMS): | $(READY)

TEST_FIRMWARE += tests/test_firmware_can.py

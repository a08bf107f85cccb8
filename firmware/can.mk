# What the tests run the agent on a CAN bus with.   SPDX-License-Identifier: MIT
CAN_SIM := firmware/sim/mcp2515.c firmware/sim/mcp2515.h

build/avr_can: firmware/sim/avr_can.c $(CAN_SIM) sim/avr_host.h
	@mkdir -p $(@D)
	@gcc -std=gnu11 -O2 -Wall -Wextra -Werror -Isim $(filter %.c,$^) -lsimavr -lelf -o $@

build/mcp2515: tests/mcp2515.c $(CAN_SIM)
	@mkdir -p $(@D)
	@gcc -std=c99 -O1 -g $(WARNINGS) -fsanitize=address,undefined -fno-sanitize-recover=all \
	    $(filter %.c,$^) -lcmocka -o $@

# What tests/test_can.py and tests/test_firmware_can.py need besides.
CAN_PROGRAMS := build/firmware/can_avr-29.elf build/avr_can build/mcp2515
$(CAN_PROGRAMS): | $(READY)

TEST_FIRMWARE += tests/test_firmware_can.py

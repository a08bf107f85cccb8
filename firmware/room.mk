# The images for boards. simulators/boards.py simulates each.   SPDX-License-Identifier: MIT
TESTED_firmware := firmware/tests
QUICK_firmware := unit-mcp2515
BUILT_firmware = $(filter-out %uart_ch32v003.elf,$(FIRMWARE)) $(SIMULATORS) \
    build/unit-mcp2515
BUILT_FULL_firmware = $(FIRMWARE)
NIGHTLY += soak-firmware
AVR_CC := avr-gcc
ARM_CC := arm-none-eabi-gcc -mthumb -ffreestanding -nostdlib -T firmware/cortex_m.ld
# The files of some roles in version 2, for AVR.
ROLES = extras/dumpulse_keyed.h $(patsubst %,extras/dumpulse_%,tag_avr.S $(patsubst %,%.c,tag $1))
KEYED_AGENT := firmware/keyed_avr.c $(call ROLES,agent mixed report master slots)
AT := -Wl,--defsym=flash_begin
# $(call image,NAME,COMPILER,SOURCES): these are the sources besides firmware/NAME.c and dumpulse.c.
image = $(eval IMAGES += $1)$(eval CC_$1 := $2)$(eval ALSO_$1 := $3)
$(call image,uart_atmega328p,$(AVR_CC) -mmcu=atmega328p -DF_CPU=16000000UL)
$(call image,uart_attiny85,$(AVR_CC) -mmcu=attiny85 -DF_CPU=8000000UL)
$(call image,sender_attiny13,$(AVR_CC) -mmcu=attiny13a -DF_CPU=1200000UL)
$(call image,can_avr,$(CC_uart_atmega328p))
$(call image,watch_atmega328p,$(CC_can_avr) -DWATCH,firmware/uart_atmega328p.c $(WATCH))
$(call image,can_avr-watch,$(CC_can_avr) -DWATCH -DWATCH_ON_C,firmware/watch_atmega328p.c $(WATCH))
$(call image,can_avr-keyed,$(CC_can_avr) -DKEYED,$(KEYED_AGENT))
$(call image,keyed_attiny85,$(CC_uart_attiny85),$(call ROLES,node))
$(call image,keyed_atmega328p,$(CC_uart_atmega328p) -DKEYED,$(KEYED_AGENT))
$(call image,uart_stm32-f1,$(ARM_CC) $(AT)=0x08000000 -mcpu=cortex-m3 -DSTM32F1)
$(call image,uart_stm32-f4,$(ARM_CC) $(AT)=0x08000000 -mcpu=cortex-m4)
$(call image,uart_nrf51,$(ARM_CC) -mcpu=cortex-m0)
$(call image,uart_rp2040,$(ARM_CC) $(AT)=0x10000000 -mcpu=cortex-m0plus)
$(call image,rs485_atmega328p,$(CC_uart_atmega328p))
$(call image,i2c_atmega328p,$(CC_uart_atmega328p))
$(call image,can_stm32-f1,$(CC_uart_stm32-f1))
$(call image,can_stm32-f4,$(CC_uart_stm32-f4))
$(call image,uart_ch32v003,riscv64-unknown-elf-gcc -march=rv32ec_zicsr -mabi=ilp32e \
    -ffreestanding -nostdlib -mno-relax -T firmware/ch32v003.ld)
FIRMWARE := $(IMAGES:%=build/firmware/%.elf)
FIRMWARE_FLAGS = -std=c11 -Os -g -ffunction-sections -fdata-sections -Wl,--gc-sections \
                 -Wl,--build-id=none $(WARNINGS) $(INCLUDES) -Ifirmware $(OPTIONS)
FIRMWARE_SHARED := $(wildcard firmware/*.h firmware/*.ld) firmware/room.mk build/flags $(LIBRARY)

# uart_stm32-f4 is made from uart_stm32.c: a name up to its "-". ALSO_ has an image's other sources.
IMAGE_SOURCES = firmware/$$(firstword $$(subst -, ,$$*)).c $$(ALSO_$$*) $(FIRMWARE_SHARED)
define LINK
	@mkdir -p $(@D)
	@$(CC_$*) $(FIRMWARE_FLAGS) $(filter %.c %.S,$^) -lgcc -o $@
endef
$(FIRMWARE): build/firmware/%.elf: $(IMAGE_SOURCES)
	$(LINK)

# The stack of each function, as the compiler reports it, for firmware/costs/images.py. The compiler
# warns that it cannot tell the stack of a naked function. Only -w turns that warning off.
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
$(HANGING): FIRMWARE_FLAGS += $(addprefix -Wl$(,)--wrap=dumpulse_,process_packet keyed_process)
$(HANGING): build/firmware/hanging/%.elf: firmware/tests/hang.c $(IMAGE_SOURCES)
	$(LINK)

eeprom: export KEYS := $(KEYS)
eeprom: ##! an EEPROM with keys: BOARD=keyed_attiny85 KEYS=FILE.h
	@firmware/eeprom "$(BOARD)" $(CC_$(BOARD)) $(FIRMWARE_FLAGS)

# Programs that run AVR code in simavr. Each gets its name at the end, when it is complete: another
# process may be running the old one, or building the same.
SIMULATORS := $(addprefix build/sim/,avr avr_uart serial_board can_board i2c_board)
build/sim/avr build/sim/avr_uart: build/sim/%: tools/processors/%.c
build/sim/can_board: firmware/simulators/can_board.c firmware/simulators/mcp2515.c
build/sim/serial_board build/sim/i2c_board: build/sim/%: firmware/simulators/%.c
$(SIMULATORS): tools/processors/avr_host.h $(wildcard firmware/simulators/*.h)
	@mkdir -p $(@D)
	@gcc -std=gnu11 -O2 -Wall -Wextra -Werror -Itools/processors $(filter %.c,$^) -lsimavr -lelf \
	    -o $@.$$$$ && mv $@.$$$$ $@

$(call add,unit-mcp2515,gcc,$(SANITIZERS),\
    firmware/tests/unit_mcp2515.c firmware/simulators/mcp2515.c,-lcmocka)
NEEDS_unit-mcp2515 = build/unit-mcp2515
PART_unit-mcp2515 = build/unit-mcp2515 ## the model of the CAN controller, against its data sheet

$(FIRMWARE) $(STACKS) $(HANGING) $(SIMULATORS): | $(QUICK)

firmware: $(FIRMWARE) ##! the images for boards: build/firmware
	@$(PYTHON) -m firmware.uf2 build/firmware/uart_rp2040.elf
	@printf '%s\n' $(FIRMWARE)

NEEDS_soak-firmware = $(FIRMWARE)
PART_soak-firmware = DUMPULSE_SOAK=100000 $(PYTEST) firmware/tests -k soak	## 100,000 packets a board

NEEDS_firmware-size = $(FIRMWARE)
TABLE_firmware-size = $(PYTHON) -m firmware.costs.images	## flash, RAM, stack, cycles of each image, against budgets

try: $(SIMULATORS) | $(QUICK) ##! simulate a board, and ask it: BOARD=uart_atmega328p
	@$(PYTHON) -m firmware.simulators.boards "$(BOARD)"

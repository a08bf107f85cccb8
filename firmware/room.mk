# The images for boards. simulators/boards.py simulates each.   SPDX-License-Identifier: MIT
UNITS_firmware := build/unit-mcp2515
# The compiler for a CH32V003 comes with `make full`.
BUILT_firmware = $(filter-out build/firmware/uart_ch32v003.elf,$(FIRMWARE)) $(SIMULATORS)
BUILT_FULL += $(FIRMWARE)
ARM_CC := arm-none-eabi-gcc -mthumb -ffreestanding -nostdlib -T firmware/cortex_m.ld
# The files of some roles in version 2.
ROLES = extras/dumpulse_keyed.h $(patsubst %,extras/dumpulse_%.c,tag $1)
KEYED_AGENT := firmware/keyed_agent.c $(call ROLES,agent mixed report master slots)
KEYED_AVR := firmware/keyed_avr.c extras/dumpulse_tag_avr.S $(KEYED_AGENT)
AT := -Wl,--defsym=flash_begin
# $(call image,NAME,COMPILER,SOURCES): these are the sources besides firmware/NAME.c and dumpulse.c.
image = $(eval IMAGES += $1)$(eval CC_$1 := $2)$(eval ALSO_$1 := $3)
$(call image,uart_atmega328p,avr-gcc -mmcu=atmega328p -DF_CPU=16000000UL)
$(call image,uart_attiny85,avr-gcc -mmcu=attiny85 -DF_CPU=8000000UL)
$(call image,sender_attiny13,avr-gcc -mmcu=attiny13a -DF_CPU=1200000UL)
$(call image,can_avr,$(CC_uart_atmega328p))
$(call image,watch_atmega328p,$(CC_can_avr) -DWATCH,firmware/uart_atmega328p.c $(WATCH))
$(call image,can_avr-watch,$(CC_can_avr) -DWATCH -DWATCH_ON_C,firmware/watch_atmega328p.c $(WATCH))
$(call image,can_avr-keyed,$(CC_can_avr) -DKEYED,$(KEYED_AVR))
$(call image,keyed_attiny85,$(CC_uart_attiny85),extras/dumpulse_tag_avr.S $(call ROLES,node))
$(call image,keyed_atmega328p,$(CC_uart_atmega328p) -DKEYED,$(KEYED_AVR))
$(call image,uart_stm32-f1,$(ARM_CC) $(AT)=0x08000000 -mcpu=cortex-m3 -DSTM32F1)
$(call image,keyed_stm32,$(CC_uart_stm32-f1) -DKEYED -DKEYED_AGENT,$(KEYED_AGENT))
$(call image,node_stm32,$(CC_uart_stm32-f1) -DKEYED,$(call ROLES,node))
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
# uart_stm32-f4 is made from uart_stm32.c: a name up to its "-". ALSO_ has an image's other sources.
IMAGE_SOURCES = firmware/$$(firstword $$(subst -, ,$$*)).c $$(ALSO_$$*) $(LIBRARY) build/flags \
                $(wildcard firmware/*.h firmware/*.ld) firmware/room.mk
define LINK_IMAGE
	@mkdir -p $(@D)
	@$(CC_$*) $(FIRMWARE_FLAGS) $(filter %.c %.S,$^) -lgcc -o $@
endef
$(FIRMWARE): build/firmware/%.elf: $(IMAGE_SOURCES)
	$(LINK_IMAGE)
# The stack of each function, for firmware/costs/images.py. Only -w turns off the compiler's warning
# that it cannot tell the stack of a naked function.
STACKS := $(IMAGES:%=build/firmware/%.su)
$(STACKS): build/firmware/%.su: $(IMAGE_SOURCES)
	@mkdir -p build/firmware/$*
	@for source in $(filter %.c,$^); do $(CC_$*) $(FIRMWARE_FLAGS) -w -fstack-usage -c $$source \
	    -o build/firmware/$*/$$(basename $$source .c).o || exit 1; done
	@cat $(patsubst %.c,build/firmware/$*/%.su,$(notdir $(filter %.c,$^))) >$@
# The same images, but a certain packet makes the loop hang: they test the watchdog.
HANGING := $(IMAGES:%=build/firmware/hanging/%.elf)
$(HANGING): FIRMWARE_FLAGS += $(call wrap,dumpulse_process_packet dumpulse_keyed_process)
$(HANGING): build/firmware/hanging/%.elf: firmware/tests/hang.c $(IMAGE_SOURCES)
	$(LINK_IMAGE)
$(FIRMWARE) $(STACKS) $(HANGING): | $(QUICK)
eeprom: export KEYS := $(KEYS)
eeprom: ##! EEPROM or flash of keys: BOARD=keyed_attiny85 KEYS=FILE.h
	@firmware/eeprom "$(BOARD)" $(CC_$(BOARD)) $(FIRMWARE_FLAGS)

# Programs that run AVR code in simavr, whose headers have warnings.
SIMULATORS := $(addprefix build/sim/,avr avr_uart serial_board can_board i2c_board)
simulator = $(call add,sim/$1,gcc,-O2 -std=gnu11 -Wno-cast-qual -Wno-sign-conversion \
    -Itools/processors,$2/$1.c $3,-lsimavr -lelf)
$(foreach name,avr avr_uart,$(call simulator,$(name),tools/processors))
$(foreach name,serial_board i2c_board,$(call simulator,$(name),firmware/simulators))
$(call simulator,can_board,firmware/simulators,firmware/simulators/mcp2515.c)
$(call add,unit-mcp2515,gcc,$(SANITIZERS),\
    firmware/tests/unit_mcp2515.c firmware/simulators/mcp2515.c,-lcmocka)
firmware: $(FIRMWARE) ##! the images for boards: build/firmware
	@$(PYTHON) -m firmware.uf2 build/firmware/uart_rp2040.elf
	@printf '%s\n' $(FIRMWARE)
TABLE_firmware-size = $(PYTHON) -m firmware.costs.images	## flash, RAM, stack, cycles of each image, against budgets
try: | $(QUICK) ##! simulate a board, and poll it: BOARD=uart_atmega328p
	@$(PYTHON) -m firmware.simulators.boards "$(BOARD)"

# The images for boards. simulators/boards.py simulates each.   SPDX-License-Identifier: MIT
BUILT_firmware = $(FIRMWARE) $(SIMULATORS)
COMPILER_avr := avr-gcc -mrelax -fdata-sections
COMPILER_arm := arm-none-eabi-gcc -mthumb -ffreestanding -nostdlib -T firmware/cortex_m.ld
AT := -Wl,--defsym=flash_begin
# The files of some roles in version 2.
ROLES = extras/dumpulse_keyed.h $(patsubst %,extras/dumpulse_%.c,tag $1)
KEYED_AGENT := firmware/keyed_agent.c $(call ROLES,agent mixed report master slots)
KEYED_AVR := firmware/keyed_avr.c extras/dumpulse_tag_avr.S $(KEYED_AGENT)
# images.tsv gives CC_, ALSO_ and PROGRAM_ of each image.
$(eval $(shell awk -F '\t' '/^boards/ { n = substr($$1, 8, length($$1) - 9); of[n] = $$2; \
    if ($$3 != "-") o[n] = $$3; if (match($$4, /mcu=[^ ]*/)) o[n] = o[n] " -m" substr($$4, RSTART, \
    RLENGTH); if (match($$4, /hertz=[0-9]*/)) o[n] = o[n] " -DF_CPU=" substr($$4, RSTART + 6, \
    RLENGTH - 6) "UL"; o[n] = o[n] " -DBOARD=\\\"" $$1 "\\\""; next } \
    /^[a-z]/ { for (i = 4; i != 6; i++) sub(/^-$$/, "", $$i); n = "_" $$1; \
    print "$$(eval IMAGES += " $$1 ")$$(eval PROGRAM" n " := firmware/" $$2 ".c)" \
    "$$(eval ALSO" n " := " $$5 ")$$(eval CC" n " := $$(COMPILER_" ($$3 in of ? of[$$3] : $$3) \
    ") " o[$$3] " " $$4 ")" }' firmware/images.tsv))
FIRMWARE := $(IMAGES:%=build/firmware/%.elf)
FIRMWARE_FLAGS = -std=c11 -Os -g -ffunction-sections -Wl,--gc-sections \
                 -Wl,--build-id=none $(WARNINGS) $(INCLUDES) -Ifirmware $(OPTIONS)
IMAGE_SOURCES = $$(PROGRAM_$$*) $$(ALSO_$$*) $(LIBRARY) build/flags firmware/images.tsv \
                $(wildcard firmware/*.h firmware/*/*.h firmware/*.ld) firmware/room.mk
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

# Programs that run AVR code in simavr, whose headers have warnings.
SIMULATORS := $(addprefix build/sim/,avr serial_board can_board)
simulator = $(call add,sim/$1,gcc,-O2 -std=gnu11 -Wno-cast-qual -Wno-sign-conversion \
    -Itools/processors,$2/$1.c $3,-lsimavr -lelf)
$(call simulator,avr,tools/processors)
$(call simulator,serial_board,firmware/simulators)
$(call simulator,can_board,firmware/simulators,firmware/simulators/mcp2515.c)
firmware: $(FIRMWARE) ##! the images for boards: build/firmware
	@$(PYTHON) -m firmware.uf2 build/firmware/uart_rp2040.elf
	@printf '%s\n' $(FIRMWARE)
TABLE_firmware-size = $(PYTHON) -m firmware.costs.images	## flash, RAM and stack of each image
# It installs what this board needs: without QUICK, make installs nothing more for its programs.
try: ##! simulate a board, and poll it: BOARD=uart_atmega328p; IMAGE=yours.elf
	@tools/setup python3
	@MAKEFLAGS=QUICK= python3 -m firmware.simulators.boards "$(BOARD)" $(if $(IMAGE),"$(IMAGE)")
hour: ##! test a board on a cable: BOARD= and PORT=
	@MAKEFLAGS=QUICK= python3 -m firmware.hardware.first_hour "$(BOARD)" "$(PORT)" $(HOUR)

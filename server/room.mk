# The agents for Linux: udpserver and canserver.   SPDX-License-Identifier: MIT
TESTED_server := server/tests
CHECKED_server := $(SERVERS:%=build/%)
CHECK_server := $(if $(SERVERS),python3 -m unittest -q tests.check)
QUICK_server := unit-server
BUILT_server = $(UNITS_OF_SERVER) build/udpserver build/canserver build/udpserver-calls
FULL += server-sanitized server-valgrind fuzz-server
BUILT_FULL_server = build/udpserver-sanitized build/flood

# What both agents are linked from.
PARTS_C := $(filter-out server/canserver.c,$(wildcard server/*.c)) dumpulse.c $(WATCH_C) $(KEYED_C)
SERVICE := $(PARTS_C) $(wildcard dumpulse.h extras/*.h server/*.h)
SETTINGS := -pthread
LINKED = $(SETTINGS) $(filter %.c,$^)
# With 32 bits, times would end in 2038. Valgrind lacks such a recvmmsg(): not for udpserver-i386.
WIDE := -D_TIME_BITS=64 -D_FILE_OFFSET_BITS=64
build/udpserver: udpserver.c
build/canserver: server/canserver.c
build/udpserver build/canserver: $(SERVICE) build/flags
	@$(CC) $(ALL_CFLAGS) $(WIDE) $(LINKED) $(LDFLAGS) -o $@.new && mv $@.new $@
udpserver: build/udpserver ##! the agent for Linux: build/udpserver
canserver: build/canserver ##! the same for a CAN interface: build/canserver
udpserver canserver:
	@echo $<

# i386's is for measurements, and flood for tests.
FAST := -O2 -funroll-loops
build/udpserver-i386: udpserver.c $(SERVICE)
	@mkdir -p $(@D)
	@i686-linux-gnu-gcc -static -std=c99 $(FAST) -flto -g $(INCLUDES) $(LINKED) -o $@
$(call add,flood,gcc,-O2,bench/flood.c)
$(call add,udpserver-sanitized,clang,$(SANITIZERS) $(SETTINGS),udpserver.c $(PARTS_C))
$(call add,udpserver-calls,gcc,$(SETTINGS),server/tests/calls.c udpserver.c $(PARTS_C))
$(call add,storm,gcc,-O2 -pthread,$(wildcard tests/storm/*.c) udpserver.c $(PARTS_C))
$(call add,storm-can,gcc,-O2 -pthread,$(wildcard tests/storm/*.c) server/canserver.c $(PARTS_C))
$(call add,fuzz/server,$(FUZZER) $(SETTINGS),,server/tests/fuzz_udpserver.c udpserver.c \
    $(filter-out server/main.c,$(PARTS_C)))
# Each unit test, and the parts that it tests. The linker finds what they need in no other part.
unit_of = $(call add,unit-$1,gcc,$(SANITIZERS),server/tests/unit_$1.c \
    $(patsubst %,server/%.c,$2 counters options),$3 -lcmocka)
$(call unit_of,can,can tests/stand_ins,dumpulse.c)
$(call unit_of,table,table watch hook limits tests/stand_ins,$(WATCH_C))
$(call unit_of,hook,hook limits tests/stand_ins)
$(call unit_of,udpserver,address limits sources sockets tests/stand_ins)
$(call unit_of,log,log)
$(call unit_of,keys,keys overlap address limits snapshot table tests/stand_ins,\
    dumpulse.c $(KEYED_C))
UNITS_OF_SERVER := $(addprefix build/unit-,can table udpserver hook log keys)
NEEDS_unit-server = $(UNITS_OF_SERVER)
PART_unit-server = $(UNITS_OF_SERVER:%=% &&) : ## cmocka tests of the server's parts

# The server's tests with other builds of it. If ASan or valgrind finds an error, the exit status of
# the server makes the test fail.
NEEDS_server-sanitized = build/udpserver-sanitized
PART_server-sanitized = $(WITH_SANITIZERS) ## the server's tests, sanitized
WITH_SANITIZERS = DUMPULSE_SERVER=$(CURDIR)/build/udpserver-sanitized $(PYTEST) -n 2 \
    --dist loadfile $(patsubst %,server/tests/test_%.py,udpserver udpserver_keyed overlap)

# A start in valgrind takes half a second. So there are only some tests of each kind: arguments,
# packets, state and sockets.
IN_VALGRIND := arguments3 or every_refusal or stream_of_everything or second_socket or \
    who_may_ask or each_source or tick_and_the_agents or counters_can_be_read or table_survives or \
    damage1 or too_old or disk_that_fails or readiness or socket_activation or \
    several_addresses or cannot_share or changes_names or may_send_heartbeats or with_options or \
    counters_on_a_socket or left_is_taken_over or restored or busy_is_told
NEEDS_server-valgrind = build/udpserver
PART_server-valgrind = $(WITH_VALGRIND) ## some of the server's tests, in valgrind
WITH_VALGRIND = DUMPULSE_SERVER="valgrind --quiet --leak-check=full --error-exitcode=99 \
    $(CURDIR)/build/udpserver" $(PYTEST) server/tests/test_udpserver.py -k "$(IN_VALGRIND)"

NEEDS_fuzz-server = build/fuzz/server build/fuzz/server-seeds
PART_fuzz-server = $(call fuzzed,server,1600,10,$(OF_SERVER))	## libFuzzer for 10 s: arguments and state
OF_SERVER = -dict=server/tests/fuzz_udpserver.dict build/fuzz/server-corpus build/fuzz/server-seeds

# Dumpulse: `make help` lists the targets. All that is built goes into build/.
# SPDX-License-Identifier: MIT
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
ifneq ($(filter-out 0,$(V)),) # `make V=1` shows every command
.SHELLFLAGS := -xc
endif

# You can set these on the command line or in the environment: CC, AR, CPPFLAGS, CFLAGS, LDFLAGS,
# PREFIX, LIBDIR, DESTDIR. CFLAGS replaces the optimisation that is chosen here. With
# -funroll-loops, the sum over a report takes a third fewer instructions. Without -flto, each packet
# costs calls to functions of other files that the servers share.
MACHINE := $(shell uname -s)
CLANG := $(findstring clang,$(shell $(CC) --version 2>&1))
CFLAGS ?= -O2 -g $(if $(CLANG),,-funroll-loops -flto)
ALL_CFLAGS = -std=c99 $(CPPFLAGS) $(CFLAGS) -I.

PYTHON := build/venv/bin/python
READY := build/venv/ready
# A test with an empty list of cases is an error, and not left out. Only tests that fail leave their
# files.
PYTEST := $(PYTHON) -m pytest -q -p no:cacheprovider -o empty_parameter_set_mark=fail_at_collect \
          -o tmp_path_retention_policy=failed
# Not among the sources, which the tests of packages pack at the same time.
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/build/hypothesis
# A test that hangs fails after so many seconds, and shows where it was. No test of `make test`
# needs as long.
IN_TIME := --timeout 600
# Two files at a time, where there are many that mostly wait.
IN_TWO := -n 2 --dist loadfile
LIBRARY := dumpulse.c dumpulse.h
WATCH := dumpulse_watch.c dumpulse_watch.h
KEYED := dumpulse_keyed.c dumpulse_keyed.h
# Only the tests use these, because another compiler may have more warnings.
WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wcast-align \
            -Wcast-qual -Wshadow -Werror
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all
COMPILER := gcc
HOST := -std=c99 -O1 -g $(WARNINGS) -I.
FUZZ_SECONDS := 20
# Each run has a new seed. A run that fails prints the input that repeats it.
FUZZ := build/fuzz/fuzz -max_len=1024 -print_final_stats=1 -artifact_prefix=build/fuzz/

# The results of searches for mistaken heartbeats.
COUNTS := $(addprefix build/reliability/,fewbits.tsv adler.tsv crc.tsv)

# The text after ##! or ## says what a target does. `make help` shows only those with ##!.
help: ##! this list
	@awk -F ':.*##! ' '/^[a-z-]+:.*##! /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

help-all: ##! print all targets: every test, every table, the fuzzers
	@awk -F ':.*##!? ' '/^[a-z-]+:.*##!? /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The servers are only for Linux, and the library is for every system.
SERVERS := $(if $(filter Linux,$(MACHINE)),udpserver canserver)
all: $(SERVERS:%=build/%) build/libdumpulse.a ##! the agents for Linux and libdumpulse.a, in build

demo: ##! an agent, eight nodes, and a live table of them
	@tools/setup gcc libc6-dev python3
	@$(MAKE) --no-print-directory build/udpserver
	@python3 examples/demo.py build/udpserver

tour: ##! the library at work, packet by packet
	@tools/setup gcc libc6-dev
	@$(MAKE) --no-print-directory build/tour
	@build/tour

udpserver: build/udpserver ##! the agent for Linux: build/udpserver
	@echo $<

canserver: build/canserver ##! the same for a CAN interface: build/canserver
	@echo $<

# If the flags change, everything is built again.
build/flags: export FLAGS = $(CC) $(ALL_CFLAGS) $(LDFLAGS) $(XDP)
build/flags: FORCE
	@mkdir -p build
	@printf '%s\n' "$$FLAGS" | cmp -s - $@ || printf '%s\n' "$$FLAGS" >$@
FORCE:

# The parts of both agents for Linux. Some tests include some of them, and link the others.
AGENT_PARTS := log options address limits sources counters stats timing table keys state names \
               watch hook manager sockets loop can xdp main
SERVICE := $(AGENT_PARTS:%=agent/%.c) $(filter-out agent/main.h,$(AGENT_PARTS:%=agent/%.h)) \
           agent/program.h $(WATCH) $(KEYED)
# agent/keys.c includes dumpulse_keyed.c, with settings of its own.
LINKED = $(filter-out dumpulse_keyed.c,$(filter %.c,$^))
SERVER_PROGRAMS := build/udpserver build/canserver build/recvfrom_loop build/flood
build/udpserver build/canserver: build/%: %.c $(SERVICE) $(LIBRARY) build/flags
	@$(CC) $(ALL_CFLAGS) $(LINKED) $(LDFLAGS) $(LIBBPF) -o $@.new && mv $@.new $@

# `udpserver --xdp` needs clang, bpftool and libbpf. Where one of these is missing, or with XDP=no,
# udpserver is built without it, and says so. A cross compiler has no libbpf. A static udpserver has
# none, because libbpf.a needs other libraries.
BPFTOOL := $(shell PATH=$$PATH:/usr/sbin command -v bpftool)
LIBBPF_FILE := $(if $(filter -static%,$(LDFLAGS)),,$(filter /%,$(shell \
               $(CC) $(CFLAGS) -print-file-name=libbpf.so 2>/dev/null)))
XDP ?= $(if $(and $(BPFTOOL),$(LIBBPF_FILE),$(shell command -v clang)),yes,no)
ifeq ($(XDP),yes)
# Private: else build/flags would have this, too, or not, and everything would be built again.
build/udpserver: private CPPFLAGS += -DDUMPULSE_XDP -isystem build
build/udpserver: LIBBPF := -lbpf
build/udpserver: build/xdp_program.skel.h
endif

# Debian has the headers of the kernel in a folder for each kind of processor, which clang does not
# look into when it compiles for the kernel.
ASM_HEADERS := $(firstword $(wildcard /usr/include/asm/types.h /usr/include/*/asm/types.h))

# bpftool writes a header that has the program. Its own name becomes part of the names in it. The
# folder of the sources is not in it: wherever it is built, it is the same.
build/xdp_program.o: agent/xdp/program.bpf.c agent/xdp/shared.h $(LIBRARY)
build/empty_program.o: bench/programs/empty.bpf.c
build/xdp_program.o build/empty_program.o:
	@mkdir -p $(@D)
	@clang -target bpf -O2 -g -ffreestanding $(WARNINGS) -I. '-ffile-prefix-map=$(CURDIR)=.' \
	    $(ASM_HEADERS:%/asm/types.h=-idirafter %) -c $< -o $@

build/xdp_program.skel.h: build/xdp_program.o
	@$(BPFTOOL) gen skeleton $< name xdp_program >$@

build/tour: examples/tour.c $(LIBRARY) build/flags
	@$(CC) $(ALL_CFLAGS) $(filter %.c,$^) $(LDFLAGS) -o $@

# It is compiled without -flto, because only the same compiler could use the objects.
build/libdumpulse.a: $(LIBRARY) $(WATCH) build/flags
	@for part in dumpulse dumpulse_watch; do \
	    $(CC) $(filter-out -flto%,$(ALL_CFLAGS)) -c $$part.c -o build/$$part.o || exit 1; done
	@rm -f $@ && $(AR) rcs $@ build/dumpulse.o build/dumpulse_watch.o

# What pkg-config reads. `make install` replaces /usr/local by PREFIX.
build/dumpulse.pc: packages/pkgconfig/dumpulse.pc.in dumpulse.h FORCE
	@mkdir -p $(@D)
	@sed -e "s|@version@|$$(sed -n 's/^#define DUMPULSE_VERSION "\([^"]*\)".*/\1/p' dumpulse.h)|" \
	    -e 's|@prefix@|/usr/local|' -e 's|@includedir@|$${prefix}/include|' \
	    -e 's|@datadir@|$${prefix}/share|' \
	    -e 's|@libdir@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' $< >$@.$$$$ && \
	    mv $@.$$$$ $@

build/udpserver-i386: udpserver.c $(SERVICE) $(LIBRARY)
	@mkdir -p $(@D)
	@i686-linux-gnu-gcc -static -std=c99 -O2 -funroll-loops -flto -g -I. $(LINKED) -o $@

# `make bench` compares udpserver with the first program. The second one floods both.
build/recvfrom_loop: bench/recvfrom_loop.c $(LIBRARY)
	@mkdir -p $(@D)
	@gcc -std=c99 -O2 -funroll-loops -g $(WARNINGS) -I. bench/recvfrom_loop.c dumpulse.c -o $@

build/flood: bench/flood.c dumpulse.h
	@mkdir -p $(@D)
	@gcc -std=c99 -O2 -g $(WARNINGS) -I. bench/flood.c -o $@

# ---- `make check`: it needs only a C compiler and Python 3.9 ----------------------------------

build/check/unit: tests/unit.c tests/runner/cmocka.h
build/check/vectors: tests/vectors.c tests/vectors.h
build/check/vectors-watch: tests/vectors_watch.c tests/vectors.h $(WATCH)
build/check/vectors-keyed: tests/vectors_keyed.c tests/vectors.h $(KEYED)
build/check/exhaustive: tests/exhaustive.c
build/check/%: $(LIBRARY) build/flags
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) -Itests/runner $(SOURCES) $(LDFLAGS) -o $@

check: ##! quick: needs a C compiler and Python 3.9 alone
check: build/check/unit build/check/vectors build/check/vectors-watch build/check/vectors-keyed \
       build/check/exhaustive $(SERVERS:%=build/%)
	@build/check/unit
	@build/check/vectors tests/vectors.tsv
	@build/check/vectors-watch tests/vectors_watch.tsv
	@build/check/vectors-keyed tests/vectors_keyed.tsv
	@build/check/exhaustive
	@$(if $(SERVERS),python3 -m unittest -q tests.check,python3 client.py --version)

include firmware/images.mk
firmware: $(FIRMWARE) ##! the images for boards: build/firmware
	@printf '%s\n' $(FIRMWARE)

test-firmware: $(FIRMWARE) ##! boot every image: packets, noise, floods, the real client
	@$(PYTEST) $(IN_TIME) $(TEST_FIRMWARE)

soak-firmware: $(FIRMWARE) ## 100,000 packets on each board, full speed; 4 minutes
	@DUMPULSE_SOAK=100000 $(PYTEST) $(TEST_FIRMWARE) -k soak

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
# PYTHONDIR is where the system's Python looks for modules below PREFIX. Another Python may be first
# in the PATH.
PYTHON3 ?= $(firstword $(wildcard /usr/bin/python3) python3)
PYTHONDIR ?= $(shell $(PYTHON3) -c 'import site, sys, sysconfig; prefix = sys.argv[1].rstrip("/"); \
    folders = [each for each in site.getsitepackages() if each.startswith(prefix + "/lib")]; \
    folders.append(sysconfig.get_path("purelib", "posix_prefix", {"base": prefix})); \
    print(folders[0])' '$(PREFIX)')
EXAMPLES_DIR = $(PREFIX)/share/doc/dumpulse/examples

# The files to install, as MODE:FILE:DESTINATION. In a file with the mode "text", /usr/local becomes
# PREFIX.
INSTALLED = \
    $(foreach name,$(SERVERS),755:build/$(name):$(PREFIX)/sbin/$(name) \
        644:man/$(name).8:$(PREFIX)/share/man/man8/$(name).8) \
    $(if $(SERVERS),$(foreach name,dumpulse.service dumpulse.socket dumpulse-can@.service, \
        text:systemd/$(name):$(PREFIX)/lib/systemd/system/$(name))) \
    644:build/libdumpulse.a:$(LIBDIR)/libdumpulse.a \
    644:dumpulse.h:$(PREFIX)/include/dumpulse.h \
    644:dumpulse_watch.h:$(PREFIX)/include/dumpulse_watch.h \
    644:dumpulse_keyed.h:$(PREFIX)/include/dumpulse_keyed.h \
    644:dumpulse_keyed.c:$(PREFIX)/share/dumpulse/dumpulse_keyed.c \
    text:build/dumpulse.pc:$(LIBDIR)/pkgconfig/dumpulse.pc \
    755:client.py:$(PREFIX)/bin/dumpulse \
    644:man/dumpulse.1:$(PREFIX)/share/man/man1/dumpulse.1 \
    644:client.py:$(PYTHONDIR)/dumpulse.py \
    644:completion/dumpulse.bash:$(PREFIX)/share/bash-completion/completions/dumpulse \
    644:completion/_dumpulse:$(PREFIX)/share/zsh/site-functions/_dumpulse \
    $(foreach name,vehicle.ini nagios.cfg icinga2.conf, \
        text:examples/$(name):$(EXAMPLES_DIR)/$(name))

# A list of make ends its entries at spaces: `/a b` would be the file /a, and b in this folder.
no-space:
	@[ -z "$(word 2,$(PREFIX))$(word 2,$(LIBDIR))$(word 2,$(PYTHONDIR))" ] || \
	    { echo "PREFIX, LIBDIR and PYTHONDIR must have no spaces; DESTDIR may" >&2; exit 2; }

install: no-space all build/dumpulse.pc ##! servers, library and client, to DESTDIR and PREFIX
	@[ -n "$(PYTHONDIR)" ] || \
	    { echo "no Python 3 was found: PYTHONDIR=FOLDER says where modules go" >&2; exit 2; }
	@for entry in $(INSTALLED); do \
	    mode=$${entry%%:*}; rest=$${entry#*:}; file=$${rest%%:*}; to="$(DESTDIR)$${rest#*:}"; \
	    mkdir -p "$${to%/*}" && rm -f "$$to" && case $$mode in \
	    text) sed 's|/usr/local|$(PREFIX)|' $$file >"$$to" && chmod 644 "$$to" ;; \
	    *) cp $$file "$$to" && chmod $$mode "$$to" ;; esac || exit 1; \
	done

uninstall: no-space ##! remove what make install put there
	@for entry in $(INSTALLED); do rm -f "$(DESTDIR)$${entry##*:}"; done
	@rm -f "$(DESTDIR)$(PYTHONDIR)"/__pycache__/dumpulse.cpython-*.pyc
	@rmdir "$(DESTDIR)$(PREFIX)/share/dumpulse" "$(DESTDIR)$(EXAMPLES_DIR)" \
	    "$(DESTDIR)$(PREFIX)/share/doc/dumpulse" 2>/dev/null || \
	    true # other files may be in these folders

completion: ## write completion/ and the manual's OPTIONS from client.py
	@python3 -m tools.completion

# The parts of `make test`. Each prints its result. check-pages also runs all commands that fill
# performance.md, except the noisy ones.
TESTS := proof test-firmware python server-checked check-pages fleet-short proof-smoke mutants \
         proof-mutants mutants-sample differential models watching coverage fuzz-short fuzz-server \
         lint exhaustive fleet-keyed fuzz-keyed vectors proof-eva check-vectors unit builds \
         lab-short packages-short verify-xdp

# Some releases of Debian have no Frama-C; Debian 12 has. The parts that need it are left out where
# it is missing after `setup`.
FRAMA_C = $(shell command -v frama-c || grep -x 'VERSION_ID="12"' /etc/os-release)
LEFT_OUT = $(if $(FRAMA_C),,$(filter proof%,$(TESTS)))

# Three parts run at a time, because some of them mostly wait. Files that several parts need are
# built before. The output of each part is printed in one piece, and stays in build/log. A part
# that fails does not end the others: one run shows all that is wrong. A part that does not end
# fails after 40 minutes; the longest takes 20 on a busy machine.
# The same scenes and power cuts each time, so that a test fails only because of a change. Parts
# that run by themselves draw new ones.
test: export DUMPULSE_SEED ?= 1
test: setup ##! install what is missing, then run every test
	@$(MAKE) --no-print-directory -j2 $(PROGRAMS) $(SERVER_PROGRAMS) $(SEARCHES) $(COUNTS) \
	    build/libdumpulse.a build/reliability/moved.txt $(FIRMWARE) $(SIMULATORS)
	@$(MAKE) --no-print-directory -k -j3 $(patsubst %,part-%,$(filter-out $(LEFT_OUT),$(TESTS)))
	@echo "== all of: $(filter-out $(LEFT_OUT),$(TESTS))"
	@$(if $(LEFT_OUT),echo "== left out: $(LEFT_OUT): this system has no frama-c")

part-%: SHELL := /bin/bash
part-%:
	@echo "== $* begins"; status=0; mkdir -p build/log; \
	TIMEFORMAT='%0R s; of processors %0U + %0S s'; \
	{ time MAKEFLAGS= timeout --foreground --kill-after=60 40m \
	    $(MAKE_COMMAND) --no-print-directory $* >build/log/$* 2>&1; } \
	    2>build/log/$*.time || status=$$?; \
	cat build/log/$*; \
	[ $$status != 124 ] || echo "$*: no end after 40 minutes" >&2; \
	if [ $$status = 0 ]; then echo "== $* passed in $$(cat build/log/$*.time)"; \
	else echo "== $* FAILED" >&2; exit 1; fi

setup: ##! install what the tests need (as root), or say what it is
	@tools/setup

size: ##! bytes on every target, and of each image, against budgets
	@$(PYTHON) -m bench.size
	@echo
	@$(PYTHON) -m bench.firmware --size

cost: ##! cycles and instructions of every packet, against budgets
	@$(PYTHON) -m bench.cost

keyed: ##! sizes and costs of agents, nodes and readers with keys
	@$(PYTHON) -m bench.keyed

accepted: build/reliability/accepted ## how many of the 2^64 packets are taken?
	@$<

bias: ## which checksums do heartbeats have?
	@$(PYTHON) -m reliability.bias

bits: $(COUNTS) ## flipped bits that turn a heartbeat into another
	@$(PYTHON) -m reliability.bits

bursts: $(COUNTS) ## bursts that turn a heartbeat into another
	@$(PYTHON) -m reliability.bursts

moved: build/reliability/moved.txt ## swapped, doubled and dropped bytes that do the same
	@cat $<

report-damage: build/reliability/report ## damaged reports that pass; ARGS="SEED TRIALS"
	@$(PYTHON) -m reliability.report_damage $(ARGS)

channels: $(COUNTS) ## how often that happens over CAN, UART, I2C and UDP
	@$(PYTHON) -m reliability.channels

residual: $(COUNTS) ## is a wrong value seen before the next heartbeat?
	@$(PYTHON) -m reliability.residual

worst: ## the least and the most that any packet may cost
	@$(PYTHON) -m bench.worst

energy: ## µs and nJ of a packet on AVR
	@$(PYTHON) -m bench.energy

instructions: ## what valgrind counts in udpserver, for packets
	@$(PYTHON) -m bench.instructions

summary: $(COUNTS) ##! what a packet costs, in one table and a picture
	@$(PYTHON) -m bench.summary

screenshot: build/udpserver ## draw the live table again: examples/watch.svg
	@$(PYTHON) -m bench.screenshot

startup: ## what valgrind counts in udpserver, with no packet
	@$(PYTHON) -m bench.instructions --startup

functions: ## instructions of each function, on amd64 and i386
	@$(PYTHON) -m bench.functions

growth: ## cost by packets, variables and senders; bench/growth.svg
	@$(PYTHON) -m bench.growth

loopbench: ##! ns a packet at -Os, -O2, -O3 and LTO; PACKETS=1000000000
	@$(PYTHON) -m bench.loop $(PACKETS)

performance: ##! measure all, noisy or not, and rewrite performance.md
	@$(PYTHON) -m bench.pages --noisy

vectors-file: ## write tests/vectors*.tsv again, from the Python models
	@$(PYTHON) -m tests.make_vectors

check-vectors: ## are tests/vectors*.tsv what their script writes?
	@$(PYTHON) -m tests.make_vectors --check

pages: ## put what the commands print today into the pages
	@$(PYTHON) -m bench.pages
	@$(PYTHON) -m lab.pages

check-pages: ## do the pages show what the commands print?
	@$(PYTHON) -m bench.pages --check
	@$(PYTHON) -m lab.pages --check

lint: ## compiler warnings, clang-tidy, cppcheck, formatting
	@tests/lint

# Each of these has the unit tests of one part; tests/unit_NAME.c says which.
UNITS := build/unit build/unit-watch build/unit-keyed build/unit-can build/unit-table \
         build/unit-udpserver build/unit-hook build/unit-log
builds: ## make check by gcc, clang, with hardening; make install
	@tests/builds

unit: $(UNITS) ## cmocka tests of the C interface, and of agent/
	@set -e; for unit in $(UNITS); do $$unit; done

VECTOR_RUNS := amd64 i386 powerpc sanitized gcc-sanitized valgrind
vectors: $(VECTOR_RUNS:%=vectors-%) ## the vectors on 32-bit, big-endian, sanitized programs

# The library's vectors, those of the watch, and those of the part with keys. The last ones run
# twice: with the master key, and with the keys of the labels.
vectors-powerpc: BY_QEMU := qemu-ppc
vectors-amd64 vectors-i386 vectors-powerpc vectors-sanitized vectors-gcc-sanitized: vectors-%: \
    build/vectors-% build/vectors-watch-% build/vectors-keyed-% build/vectors-labels-%
	@echo -n "$*: "; $(BY_QEMU) build/vectors-$* tests/vectors.tsv
	@echo -n "$*, watch: "; $(BY_QEMU) build/vectors-watch-$* tests/vectors_watch.tsv
	@echo -n "$*, keyed: "; $(BY_QEMU) build/vectors-keyed-$* tests/vectors_keyed.tsv
	@echo -n "$*, keys of labels: "; $(BY_QEMU) build/vectors-labels-$* tests/vectors_keyed.tsv

vectors-valgrind: build/vectors-amd64 build/vectors-watch-amd64 build/vectors-keyed-amd64 build/unit
	@for program in "build/unit" "build/vectors-amd64 tests/vectors.tsv" \
	        "build/vectors-watch-amd64 tests/vectors_watch.tsv" \
	        "build/vectors-keyed-amd64 tests/vectors_keyed.tsv"; do \
	    valgrind --quiet --leak-check=full --error-exitcode=1 $$program >build/valgrind.log 2>&1 \
	        || { cat build/valgrind.log; exit 1; }; \
	    echo "valgrind: $$(tail -1 build/valgrind.log)"; \
	done

differential: ## code for every target against the model; ARGS="--count N"
	@$(PYTHON) -m tests.differential $(ARGS)

watching: ## the same for the watch
	@$(PYTHON) -m tests.watching $(ARGS)

agree: ## device, server, client and model: one judgement; 10^6 runs
	@$(PYTHON) -m tests.agree $(ARGS)

paths: ## every path of the AVR code, with all 2^64 packets at once
	@$(PYTHON) -m proof.avr
	@$(PYTHON) -m proof.avr_keyed

exhaustive: build/exhaustive build/downgrade build/forgery ## all 2^24 packets with the magic number
	@build/exhaustive
	@build/downgrade
	@build/forgery

fleet-keyed: build/fleet-keyed ## a year of 64 nodes with keys: is one locked out?
	@build/fleet-keyed

python: ## pytest: every target, the README, udpserver, client
	@$(PYTEST) $(IN_TIME) $(IN_TWO) test_dumpulse.py tests lab $(TEST_FIRMWARE:%=--ignore=%)

# The server's tests with other builds of it. If ASan or valgrind finds an error, the exit status of
# the server makes the test fail.
server-checked: server-sanitized server-valgrind ## the server's tests, sanitized and in valgrind

server-sanitized: build/udpserver-sanitized
	@DUMPULSE_SERVER=$(CURDIR)/$< $(PYTEST) $(IN_TIME) tests/test_udpserver.py \
	    tests/test_udpserver_keyed.py

# A start in valgrind takes half a second. So there are only some tests of each kind: arguments,
# packets, state and sockets.
IN_VALGRIND := arguments3 or every_refusal or stream_of_everything or second_socket or \
    who_may_ask or each_source or tick_and_the_agents or counters_can_be_read or table_survives or \
    damage1 or too_old or disk_that_fails or readiness or socket_activation or \
    several_addresses or cannot_share or changes_names or may_send_heartbeats or with_options or \
    counters_on_a_socket or left_is_taken_over or restored or busy_is_told
server-valgrind: build/udpserver
	@DUMPULSE_SERVER="valgrind --quiet --leak-check=full --error-exitcode=99 $(CURDIR)/$<" \
	    $(PYTEST) $(IN_TIME) tests/test_udpserver.py -k "$(IN_VALGRIND)"

fuzz-short: build/fuzz/fuzz ## libFuzzer for 20 seconds, from the corpus
	@mkdir -p build/fuzz/corpus
	@$(FUZZ) -max_total_time=$(FUZZ_SECONDS) build/fuzz/corpus tests/corpus 2>build/fuzz/log \
	    || { tail -40 build/fuzz/log; exit 1; }
	@grep -q '^Done [1-9]' build/fuzz/log || { cat build/fuzz/log; exit 1; }
	@sed -n 's/^Done \([0-9]*\) runs.*/fuzz: \1 passed, 0 failed/p' build/fuzz/log

soak: ##! a million heartbeats and junk at full speed
	@$(PYTHON) -m tests.soak

bench: ##! udpserver against a recvfrom loop: CPU per packet
	@$(PYTHON) -m bench.udp

verify-xdp: ## what the kernel's verifier says of udpserver --xdp
	@$(PYTHON) -m tests.verify_xdp

xdp-differential: ## a million frames to udpserver with and without --xdp
	@$(PYTHON) -m tests.xdp_differential $(ARGS)

fuzz-server: build/fuzz/server ## libFuzzer for 10 s: the server's arguments and state
	@mkdir -p build/fuzz/server-corpus
	@build/fuzz/server -max_len=1600 -print_final_stats=1 -artifact_prefix=build/fuzz/server- \
	    -dict=tests/fuzz_udpserver.dict -max_total_time=10 \
	    build/fuzz/server-corpus tests/corpus_udpserver \
	    2>build/fuzz/server-log || { tail -40 build/fuzz/server-log; exit 1; }
	@grep -q '^Done [1-9]' build/fuzz/server-log || { cat build/fuzz/server-log; exit 1; }
	@sed -n 's/^Done \([0-9]*\) runs.*/fuzz-server: \1 passed, 0 failed/p' build/fuzz/server-log

fuzz-keyed: build/fuzz/keyed ## libFuzzer for 10 s: an agent with keys
	@mkdir -p build/fuzz/keyed-corpus
	@build/fuzz/keyed -max_len=512 -print_final_stats=1 -artifact_prefix=build/fuzz/keyed- \
	    -max_total_time=10 build/fuzz/keyed-corpus 2>build/fuzz/keyed-log \
	    || { tail -40 build/fuzz/keyed-log; exit 1; }
	@grep -q '^Done [1-9]' build/fuzz/keyed-log || { cat build/fuzz/keyed-log; exit 1; }
	@sed -n 's/^Done \([0-9]*\) runs.*/fuzz-keyed: \1 passed, 0 failed/p' build/fuzz/keyed-log

fuzz: build/fuzz/fuzz ## libFuzzer until Ctrl-C; inputs go to build/fuzz/corpus
	@mkdir -p build/fuzz/corpus
	$(FUZZ) -jobs=0 build/fuzz/corpus tests/corpus

fuzz-replay: build/fuzz/fuzz ## run one input again: INPUT=build/fuzz/crash-…
replay-server: build/fuzz/server ## run one input of fuzz-server again
fuzz-replay replay-server:
	@test -f "$(INPUT)" || { echo "make $@ needs INPUT=FILE, a file that exists" >&2; exit 2; }
	$< "$(INPUT)"

proof: ##! prove library, watch and version 2; 8 minutes
	@proof/prove

proof-smoke: ## do no assumptions of the proof contradict each other?
	@proof/prove --smoke

proof-eva: ## a second opinion on undefined behaviour
	@proof/prove --eva

proof-mutants: ## break the library: does the proof notice? ARGS=--all
	@proof/mutants $(ARGS)

models: ##! does version 2 hold, and is each of its rules needed?
	@$(PYTHON) -m proof.spin

coverage: ## what the unit tests alone reach
	@$(PYTHON) -m tests.coverage

mutants: ## break the library: does a test notice?
	@$(PYTHON) -m tests.mutants library $(ARGS)

mutants-keyed: ## break dumpulse_keyed: 15 minutes; ARGS="--count 100"
	@$(PYTHON) -m tests.mutants keyed $(ARGS)

# These build what they need. ARGS can have --seed N, --count N, --file NAME, --jobs N and --list.
mutants-server: ## break udpserver: an hour and a half; ARGS="--count 100"
	@$(PYTHON) -m tests.mutants server $(ARGS)

mutants-client: ## break client.py: an hour and a half; ARGS="--count 100"
	@$(PYTHON) -m tests.mutants client $(ARGS)

# The mutants of tests/mutants_sample.tsv, each with the one test that notices it.
mutants-sample: ## a few of each, the same every time: a minute
	@$(PYTHON) -m tests.mutants keyed --count 30
	@$(PYTHON) -m tests.mutants server --sample
	@$(PYTHON) -m tests.mutants client --sample

explore: ## Hypothesis with many new examples; minutes
	@HYPOTHESIS_PROFILE=explore $(PYTEST) test_dumpulse.py

# What takes minutes to fetch or to make, and does not depend on the sources.
FETCHED := venv venv-packages toolchains vm debian cargo
clean: ##! remove what was built; packages and compilers stay
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 $(FETCHED:%=! -name %) -exec rm -rf {} +

layers: ## the layers of the project, as a picture
	@python3 -m tests.layers

check-debian13: ## all tests in a fresh Debian 13; root, half an hour
	@tools/debian13

distclean: ##! remove all that was built or fetched
	@rm -rf build

# With -B, make comes here for source files, too.
.DEFAULT:
	@[ -e "$@" ] || { echo "there is no '$@' to make: make help lists what there is" >&2; exit 2; }

# The programs of the tests: compiler, sources, and what else each needs.
VECTOR_KINDS := amd64 i386 powerpc sanitized gcc-sanitized
VECTOR_PARTS := vectors vectors-watch vectors-keyed vectors-labels
VECTOR_PROGRAMS := $(foreach part,$(VECTOR_PARTS),$(VECTOR_KINDS:%=build/$(part)-%))
SOURCES = $(filter %.c,$^)
PROGRAMS := build/udpserver-sanitized build/udpserver-calls $(UNITS) build/unit-mcp2515 \
            build/exhaustive build/downgrade build/forgery build/fleet-keyed build/fuzz/fuzz \
            build/fuzz/server build/fuzz/keyed $(VECTOR_PROGRAMS) \
            build/reliability/accepted build/reliability/report build/agree.so
build/udpserver-sanitized: udpserver.c $(SERVICE)
build/udpserver-sanitized: SOURCES = $(LINKED)
build/udpserver-sanitized: COMPILER := clang
build/udpserver-sanitized: MORE := $(SANITIZERS)
build/udpserver-calls: tests/calls.c udpserver.c $(SERVICE)
# tests/calls.c includes the sources that are left out.
build/udpserver-calls: SOURCES = $(filter-out udpserver.c agent/loop.c agent/state.c,$(LINKED))
build/unit: tests/unit.c
build/unit-watch: tests/unit_watch.c $(WATCH)
build/unit-watch: SOURCES = tests/unit_watch.c dumpulse_watch.c
build/unit-keyed: tests/unit_keyed.c $(KEYED)
build/unit-keyed: SOURCES = -DDUMPULSE_ALONE=8 tests/unit_keyed.c dumpulse_keyed.c
build/unit-can: tests/unit_can.c $(SERVICE)
build/unit-can: SOURCES = tests/unit_can.c dumpulse.c # the first one includes agent/can.c
build/unit-table: tests/unit_table.c $(SERVICE)
build/unit-table: SOURCES = tests/unit_table.c # which includes agent/table.c
build/unit-udpserver: tests/unit_udpserver.c $(SERVICE)
build/unit-udpserver: SOURCES = tests/unit_udpserver.c # which includes what it tests
build/unit-hook: tests/unit_hook.c $(SERVICE)
build/unit-hook: SOURCES = tests/unit_hook.c # which includes agent/hook.c
build/unit-log: tests/unit_log.c $(SERVICE)
build/unit-log: SOURCES = tests/unit_log.c # which includes agent/log.c
build/unit-mcp2515: tests/mcp2515.c sim/mcp2515.c sim/mcp2515.h
build/unit-mcp2515: SOURCES = tests/mcp2515.c sim/mcp2515.c # and no library
build/unit-watch build/unit-keyed build/unit-can build/unit-table build/unit-udpserver \
    build/unit-hook build/unit-log build/unit-mcp2515: MORE := $(SANITIZERS)
$(UNITS) build/unit-mcp2515: LINK := -lcmocka
# tests/agree.c includes agent/watch.c, and replaces the clocks, the loop and the hook.
build/agree.so: tests/agree.c $(SERVICE)
build/agree.so: SOURCES = tests/agree.c $(patsubst %,agent/%.c,names options log limits table) \
                          dumpulse.c dumpulse_watch.c
build/agree.so: MORE := -O2 -shared -fPIC -Wl,--wrap=log_say
build/exhaustive: tests/exhaustive.c
build/exhaustive: MORE := -O2
build/downgrade: tests/downgrade.c dumpulse.c $(KEYED)
build/downgrade: SOURCES = -DDUMPULSE_ALONE=64 tests/downgrade.c dumpulse.c dumpulse_keyed.c
build/downgrade: MORE := -O2
build/forgery: tests/forgery.c $(KEYED)
build/forgery: SOURCES = -DDUMPULSE_ALONE=64 tests/forgery.c dumpulse_keyed.c
build/forgery: MORE := -O2
build/forgery: LINK := -lm
build/fleet-keyed: tests/fleet_keyed.c $(KEYED)
build/fleet-keyed: SOURCES = tests/fleet_keyed.c dumpulse_keyed.c
build/fleet-keyed: MORE := -O2 -DDUMPULSE_ALONE=32 -DDUMPULSE_OWN_TAG
build/fuzz/fuzz: tests/fuzz.c tests/fuzz_check.h
build/fuzz/server: tests/fuzz_udpserver.c tests/fuzz_check.h udpserver.c $(SERVICE)
build/fuzz/server: SOURCES = $(filter-out udpserver.c agent/options.c agent/state.c agent/keys.c \
                                          agent/main.c,$(LINKED))
build/fuzz/keyed: tests/fuzz_keyed.c tests/fuzz_check.h $(KEYED)
build/fuzz/keyed: SOURCES = -DDUMPULSE_ALONE=8 tests/fuzz_keyed.c dumpulse_keyed.c
build/fuzz/fuzz build/fuzz/server build/fuzz/keyed: COMPILER := clang
build/fuzz/fuzz build/fuzz/server build/fuzz/keyed: MORE := $(SANITIZERS) -fsanitize=fuzzer
$(VECTOR_KINDS:%=build/vectors-%): tests/vectors.c tests/vectors.h
$(VECTOR_KINDS:%=build/vectors-watch-%): tests/vectors_watch.c tests/vectors.h $(WATCH)
build/check/vectors-watch $(VECTOR_KINDS:%=build/vectors-watch-%): \
    SOURCES = tests/vectors_watch.c dumpulse_watch.c
VECTORS_KEYED := $(VECTOR_KINDS:%=build/vectors-keyed-%)
VECTORS_LABELS := $(VECTOR_KINDS:%=build/vectors-labels-%)
$(VECTORS_KEYED) $(VECTORS_LABELS): tests/vectors_keyed.c tests/vectors.h $(KEYED)
build/check/vectors-keyed $(VECTORS_KEYED) $(VECTORS_LABELS): \
    SOURCES = -DDUMPULSE_ALONE=8 tests/vectors_keyed.c dumpulse_keyed.c
$(VECTORS_LABELS): SOURCES += -DDUMPULSE_LABEL_KEYS
$(VECTOR_PARTS:%=build/%-i386): COMPILER := i686-linux-gnu-gcc
$(VECTOR_PARTS:%=build/%-powerpc): COMPILER := powerpc-linux-gnu-gcc
$(VECTOR_PARTS:%=build/%-i386) $(VECTOR_PARTS:%=build/%-powerpc): MORE := -static
$(VECTOR_PARTS:%=build/%-sanitized): COMPILER := clang
$(VECTOR_PARTS:%=build/%-sanitized) $(VECTOR_PARTS:%=build/%-gcc-sanitized): MORE := $(SANITIZERS)
build/reliability/accepted: reliability/accepted.c
build/reliability/report: reliability/report.c
build/reliability/accepted build/reliability/report: MORE := -O2
$(PROGRAMS): $(LIBRARY) | $(READY)
	@mkdir -p $(@D)
	@$(COMPILER) $(HOST) $(MORE) $(SOURCES) $(LINK) -o $@

# These need only the header, and must be fast.
SEARCHES := $(addprefix build/reliability/,fewbits distances moved)
$(SEARCHES): build/reliability/%: reliability/%.c reliability/heartbeats.h dumpulse.h | $(READY)
	@mkdir -p $(@D)
	@gcc $(HOST) -O3 $< -o $@
build/reliability/fewbits.tsv: build/reliability/fewbits
	@echo "trying all flips of up to 4 bits: 20 seconds" >&2
	@$< >$@
build/reliability/moved.txt: build/reliability/moved
	@$< >$@
build/reliability/adler.tsv: build/reliability/distances
	@$< >$@
build/reliability/crc.tsv: build/reliability/distances
	@$< crc >$@

# tools/setup makes this file last. If it is up to date, everything is installed.
$(READY): tools/packages.txt tools/requirements.txt tools/toolchains.txt
	@tools/setup
include lab/lab.mk
include packages/packages.mk
include fleet/fleet.mk

FIGURES := summary screenshot size cost keyed paths worst energy instructions startup functions \
           growth loopbench bench performance
RELIABILITY := accepted bias bits bursts moved report-damage channels residual
$(TESTS) $(FIGURES) $(RELIABILITY) vectors-file explore pages soak completion mutants-keyed \
    mutants-server mutants-client xdp-differential $(LAB) $(PACKAGES) $(FLEET): | $(READY)

.PHONY: all check completion layers check-debian13 distclean help help-all demo tour udpserver \
        canserver no-space install uninstall test setup $(FIGURES) $(RELIABILITY) $(TESTS) \
        $(VECTOR_RUNS:%=vectors-%) vectors-file pages fuzz fuzz-replay replay-server \
        server-sanitized server-valgrind xdp-differential soak explore completion clean \
        firmware soak-firmware \
        mutants-keyed mutants-server mutants-client $(LAB) $(PACKAGES) $(FLEET) packages-setup

# Dumpulse: `make help` lists the targets. All that is built goes into build/. Each room has its own
# targets in its room.mk.   SPDX-License-Identifier: MIT
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
CLANG := $(findstring clang,$(shell { $(CC) --version; } 2>/dev/null))
CFLAGS ?= -O2 -g $(if $(CLANG),,-funroll-loops -flto)
INCLUDES := -I. -Iextras
ALL_CFLAGS = -std=c99 $(CPPFLAGS) $(CFLAGS) $(INCLUDES)
, := ,
LIBRARY := dumpulse.c dumpulse.h
WATCH_C := extras/dumpulse_watch.c
WATCH := $(WATCH_C) extras/dumpulse_watch.h
KEYED_C := $(patsubst %,extras/dumpulse_%.c,tag agent mixed report node reader master slots)
KEYED := $(KEYED_C) extras/dumpulse_keyed.h
# Only the tests use these, because another compiler may have more warnings.
WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wcast-align \
            -Wcast-qual -Wshadow -Werror
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all
HOST := -std=c99 -O1 -g $(WARNINGS) $(INCLUDES)

# tools/setup makes these files last. If one is up to date, all that `make test` (the quick
# one) or `make full` needs is installed.
QUICK := build/venv/ready-quick
READY := build/venv/ready
PYTHON := build/venv/bin/python
# A test with an empty list of cases is an error. Only tests that fail leave their files. One that
# hangs fails, and shows where it was. A make that a test starts does not get this one's ONLY.
PYTEST := env -u MAKEFLAGS -u ONLY -u ROOM $(PYTHON) -m pytest -q -p no:cacheprovider \
          -p tools.tiers --timeout 600 --import-mode=append \
          -o empty_parameter_set_mark=fail_at_collect -o tmp_path_retention_policy=failed
# Not among the sources, which the tests of packages pack at the same time.
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/build/hypothesis

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

# If the flags change, everything is built again.
build/flags: export FLAGS = $(CC) $(ALL_CFLAGS) $(WIDE) $(LDFLAGS) $(OPTIONS)
build/flags: FORCE
	@command -v $(firstword $(CC)) >/dev/null || { echo "there is no C compiler '$(CC)': install" \
	    "gcc and libc6-dev, or name yours as CC" >&2; exit 2; }
	@mkdir -p build
	@printf '%s\n' "$$FLAGS" | cmp -s - $@ || printf '%s\n' "$$FLAGS" >$@
FORCE:

build/tour: examples/tour.c $(LIBRARY) build/flags
	@$(CC) $(ALL_CFLAGS) $(filter %.c,$^) $(LDFLAGS) -o $@

# It is compiled without -flto, because only the same compiler could use the objects.
build/libdumpulse.a: $(LIBRARY) $(WATCH) $(KEYED) build/flags
	@for source in $(filter %.c,$^); do $(CC) $(filter-out -flto%,$(ALL_CFLAGS)) -c $$source \
	    -o build/$$(basename $$source .c).o || exit 1; done
	@rm -f $@ && $(AR) rcs $@ $(patsubst %.c,build/%.o,$(notdir $(filter %.c,$^)))

# ---- the programs of the tests ---------------------------------------------------------------

# Each room adds its programs: $(call program,NAME,COMPILER,FLAGS,SOURCES,LIBRARIES) is build/NAME.
HEADERS := $(wildcard *.h extras/*.h server/*.h server/*/*.h tests/*.h tests/s*/*.h tools/*.h \
                      bench/reliability/*.h firmware/simulators/*.h)
define program
PROGRAMS += build/$(strip $1)
build/$(strip $1): $(filter %.c,$3 $4) $(HEADERS)
build/$(strip $1): BUILD = $(strip $2) $(HOST) $3 $4 $5 $$(WRAPS)
endef
# If a source has a function __wrap_NAME, the linker gives all calls of NAME to it.
WRAPS = $(shell sed -nE 's/^[a-z].*__wrap_([a-z0-9_]*).*/-Wl,--wrap=\1/p' $(filter %.c,$^))
add = $(eval $(call program,$1,$2,$3,$4,$5))

# ---- three tiers of tests --------------------------------------------------------------------

# Each room says what it has: TESTED, where pytest looks; QUICK_name, parts of `make test`; FULL and
# NIGHTLY, parts of the others. A test with the mark `slow` is of `make full`. Tests of one tier are
# not run again by the next.
ROOMS := spec tests server client firmware bench proof dumpulse_fleet packages lab
ROOM ?=
ifneq ($(ROOM),)
ifeq ($(filter $(ROOMS),$(ROOM)),)
$(error there is no room '$(ROOM)': ROOM is one of $(ROOMS))
endif
endif
IN := $(or $(ROOM),$(ROOMS))
QUICK_ROOMS := $(filter-out lab spec,$(ROOMS)) # the lab has a part of its own in `make full`
.SECONDEXPANSION:
include $(wildcard $(ROOMS:%=%/room.mk)) # a part of the sources may have fewer

check: ##! quick: needs a C compiler and Python 3.9 alone
check: $(foreach room,$(IN),$(CHECKED_$(room)))
	@set -e; $(foreach room,$(IN),$(if $(CHECK_$(room)),$(CHECK_$(room));)) :
	@$(if $(strip $(foreach room,$(IN),$(CHECK_$(room)))),, \
	    echo "$(ROOM) has no quick checks: make test ROOM=$(ROOM)")

# The same scenes and power cuts each time, so that a test fails only because of a change. Parts
# that run by themselves draw new ones.
QUICK_PARTS = $(if $(strip $(PYTESTED)),python) $(foreach room,$(IN),$(QUICK_$(room)))
PYTESTED = $(foreach room,$(or $(ROOM),$(QUICK_ROOMS)),$(TESTED_$(room)))
test full nightly: export DUMPULSE_SEED ?= 1
test: $(or $(SETUP_$(ROOM)),setup-quick) ##! the quick tests; 3 minutes; ROOM=server: one room's
	@$(MAKE) --no-print-directory -j2 build/flags $(foreach room,$(IN),$(BUILT_$(room)))
	@$(MAKE) --no-print-directory -k -j2 $(QUICK_PARTS:%=part-%)
	@echo "== all of: $(strip $(QUICK_PARTS))"

# As many at a time as two processors can bear, because many tests wait: some rooms say how many.
WORKERS = $(or $(WORKERS_$(ROOM)),4)
PART_python = $(PYTEST) -n $(WORKERS) --dist loadfile -m "not slow and not long" $(PYTESTED)	## quick tests
PART_python-slow = $(PYTEST) -n 3 --dist loadfile -m "slow and not long" $(PYTESTED) ## slow tests

# Some releases of Debian have no Frama-C; Debian 12 has. The parts that need it are left out where
# it is missing after `setup`.
FRAMA_C = $(shell command -v frama-c || grep -x 'VERSION_ID="12"' /etc/os-release)
LEFT_OUT = $(if $(FRAMA_C),,$(filter proof%,$(FULL) $(NIGHTLY)))

# Three parts run at a time, because some mostly wait. Each part prints its output in one piece, and
# keeps it in build/log. A part that fails does not end the others: one run shows all that is wrong.
full: setup ##! all that must pass before a change lands; 25 minutes
	@$(MAKE) --no-print-directory -j2 $(PROGRAMS) \
	    $(foreach room,$(ROOMS),$(BUILT_$(room)) $(BUILT_FULL_$(room)))
	@$(MAKE) --no-print-directory -k -j3 $(patsubst %,part-%,$(filter-out $(LEFT_OUT),$(FULL)))
	@echo "== all of: $(filter-out $(LEFT_OUT),$(FULL))"
	@$(if $(LEFT_OUT),echo "== left out: $(filter $(LEFT_OUT),$(FULL)): this system has no frama-c")

nightly: setup ##! mutants, soaks, fuzzers, power cuts; hours
	@$(MAKE) --no-print-directory -k -j2 $(patsubst %,part-%,$(filter-out $(LEFT_OUT),$(NIGHTLY)))

# A part is a room's PART_name, a command, for which NEEDS_name is built before. A part without an
# end fails after an hour: the longest takes ten minutes alone on a machine.
part-%: SHELL := /bin/bash
part-%: export COMMAND = $(PART_$*)
part-%: $$(NEEDS_$$*)
	@[ -n "$$COMMAND" ] || { echo "make: there is no part '$*'" >&2; exit 2; }; \
	echo "== $* begins"; status=0; mkdir -p build/log; \
	TIMEFORMAT='%0R s; of processors %0U + %0S s'; \
	{ time MAKEFLAGS= timeout --foreground --kill-after=60 $(PART_TIME) \
	    sh -ec "$$COMMAND" >build/log/$* 2>&1; } 2>build/log/$*.time || status=$$?; \
	cat build/log/$*; \
	[ $$status != 124 ] || echo "$*: no end after $(PART_TIME)" >&2; \
	if [ $$status = 0 ]; then echo "== $* passed in $$(cat build/log/$*.time)"; \
	else echo "== $* FAILED" >&2; exit 1; fi
PART_TIME := 60m
lint: ## compiler warnings, clang-tidy, cppcheck, formatting
proof: ##! prove library, watch and version 2; 8 minutes
lint proof storm: | $(READY)
	@$(PART_$@)

part: $$(NEEDS_$$(ONLY)) | $$(TOOLS) ##! a part of the tests alone: ONLY=lint; else a list of them
	@$(or $(PART_$(or $(ONLY),of-contents)),echo "there is no part '$(ONLY)': make part lists" \
	    "them" >&2; exit 2)
PART_of-contents = $(call contents,PART,part)
TOOLS = $(if $(ONLY),$(if $(filter $(ONLY),python $(foreach room,$(ROOMS),$(QUICK_$(room)))),\
        $(QUICK),$(READY)))
# What the rooms' lists PART_ and TABLE_ have, with their texts.
contents = echo "make $2 ONLY=NAME, where NAME is one of:" && \
    sed -n 's/^$1_\([a-z0-9-]*\) = .*\#\# \(.*\)/\1:\2/p' $(MAKEFILE_LIST) | \
    awk -F: '{printf "  %-21s %s\n", $$1, substr($$0, length($$1) + 2)}'

setup: ##! install what all tests need (as root), or say what it is
setup-quick: ## install only what `make test` needs
$(QUICK) $(READY): tools/packages.txt tools/requirements.txt
$(READY): tools/toolchains.txt
setup $(READY): ; @tools/setup
setup-quick $(QUICK): ; @tools/setup --quick

# All programs of the rooms' tables.
$(PROGRAMS): | $(QUICK)
	@mkdir -p $(@D)
	@$(BUILD) -o $@
NEED_ALL += lab pages
$(NEED_ALL): | $(READY)

# ---- tables ----------------------------------------------------------------------------------

# A room's TABLE_name prints a table, for which NEEDS_name is built before. 141: `head` has enough.
figures: $$(NEEDS_$$(ONLY)) | $$(PACKAGES) ##! a table: ONLY=size; else a list of them
	@{ $(or $(TABLE_$(or $(ONLY),of-contents)),echo "there is no table '$(ONLY)': make figures" \
	    "lists them" >&2; exit 2); } || { status=$$?; [ $$status = 141 ] || exit $$status; }
PACKAGES = $(if $(ONLY),$(if $(findstring PRINTER,$(value TABLE_$(ONLY))),,$(READY)))
TABLE_of-contents = $(call contents,TABLE,figures)

# ---- clean -----------------------------------------------------------------------------------

# What takes minutes to fetch or to make, and does not depend on the sources.
FETCHED := venv venv-packages toolchains vm debian cargo
clean: ##! remove what was built; packages and compilers stay
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 $(FETCHED:%=! -name %) -exec rm -rf {} +

distclean: ##! remove all that was built or fetched
	@rm -rf build

# With -B, make comes here for source files, too.
.DEFAULT:
	@[ -e "$@" ] || { echo "there is no '$@' to make: make help lists what there is" >&2; exit 2; }

# Every target with a help text is no file.
.PHONY: FORCE no-space $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' $(MAKEFILE_LIST))

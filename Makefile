# Dumpulse: `make help` lists the targets. All that is built goes into build/. Each room has its own
# targets in its room.mk.   SPDX-License-Identifier: MIT
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDEXPANSION:
.SHELLFLAGS := -$(if $(filter-out 0,$(V)),x)c # `make V=1` prints every command

# You can set CC, AR, CPPFLAGS, CFLAGS, LDFLAGS, PREFIX, LIBDIR and DESTDIR. With -funroll-loops,
# the sum over a report takes a third fewer instructions. With -flto, packets need fewer calls.
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

# tools/setup touches these files last: what `make test` needs, and what `make full` needs.
QUICK := build/venv/ready-quick
READY := build/venv/ready
PYTHON := build/venv/bin/python
# A test with an empty list of cases is an error. Only tests that fail leave their files. One that
# hangs fails, and shows where it was. A make that a test starts does not get this one's ONLY.
PYTEST = env -u MAKEFLAGS -u ONLY -u ROOM -u PORTION $(if $(PORTION),DUMPULSE_SEED=$(NEW)) \
          $(PYTHON) -m pytest -q -p no:cacheprovider -p tools.tiers $(AT) --timeout 600 \
          --import-mode=append -o empty_parameter_set_mark=fail_at_collect \
          -o tmp_path_retention_policy=failed
# Tests of packages pack the sources at the same time.
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/build/hypothesis

# The text after ##! or ## describes a target. `make help` prints only those with ##!.
help: MARK := !
help: ##! this list
help-all: ##! the list of all targets
help help-all:
	@awk -F ':.*##!? ' '/^[a-z-]+:.*##$(MARK)/{printf "  make %-14s %s\n",$$1,$$2}' $(MAKEFILE_LIST)
# The servers are only for Linux, and the library is for every system.
SERVERS := $(if $(filter Linux,$(shell uname -s)),udpserver canserver)
all: $(SERVERS:%=build/%) build/libdumpulse.a ##! the agents for Linux and libdumpulse.a, in build
demo: ##! an agent, eight nodes, and a live table of them
	@tools/setup gcc libc6-dev python3
	@$(MAKE) --no-print-directory build/udpserver
	@python3 examples/demo.py build/udpserver
# If the flags change, everything is built again.
build/flags: export FLAGS = $(CC) $(ALL_CFLAGS) $(WIDE) $(LDFLAGS) $(OPTIONS)
build/flags: FORCE
	@command -v $(firstword $(CC)) >/dev/null || { echo "there is no C compiler '$(CC)': install" \
	    "gcc and libc6-dev, or name yours as CC" >&2; exit 2; }
	@mkdir -p build
	@printf '%s\n' "$$FLAGS" | cmp -s - $@ || printf '%s\n' "$$FLAGS" >$@
FORCE:
# A program by the user's compiler. It gets its name when it is complete.
define LINK
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) $(ALSO) $(filter %.c,$^) $(LDFLAGS) -o $@.new && mv $@.new $@
endef
# It is compiled without -flto, because only the same compiler could use the objects.
build/libdumpulse.a: $(LIBRARY) $(WATCH) $(KEYED) build/flags
	@for source in $(filter %.c,$^); do $(CC) $(filter-out -flto%,$(ALL_CFLAGS)) -c $$source \
	    -o build/$$(basename $$source .c).o || exit 1; done
	@rm -f $@ && $(AR) rcs $@ $(patsubst %.c,build/%.o,$(notdir $(filter %.c,$^)))
# A room's program for tests, build/NAME: $(call add,NAME,COMPILER,FLAGS,SOURCES,LIBRARIES).
HEADERS := $(filter-out build/%,$(wildcard *.h */*.h */*/*.h))
HOST := -std=c99 -O1 -g $(WARNINGS) $(INCLUDES)
add = $(eval PROGRAMS += build/$1)$(eval build/$1: $(filter %.c,$3 $4) $(HEADERS)) \
    $(eval build/$1: BUILD = $2 $(HOST) $3 $4 $5)
# In a program that is linked with $(call wrap,NAMES), calls of NAME go to __wrap_NAME.
wrap = $(addprefix -Wl$(,)--wrap=,$1)

# Each room sets UNITS_room, programs that are tests, QUICK_room, other parts of `make test`, and
# BUILT_room, what the tests need.
ROOMS := spec tests server client firmware bench proof dumpulse_fleet packages lab
$(if $(filter-out $(ROOMS),$(ROOM)),$(error there is no room '$(ROOM)'; there are: $(ROOMS)))
IN := $(or $(ROOM),$(ROOMS))
include $(wildcard $(ROOMS:%=%/room.mk)) # a part of the sources may have fewer
$(PROGRAMS): | $(QUICK)
	@mkdir -p $(@D)
	@$(BUILD) -o $@.new && mv $@.new $@
check: ##! a quick check: needs only a C compiler and Python 3.9
check: $(foreach room,$(IN),$(CHECKED_$(room)))
	@failed=0; $(or $(strip $(foreach room,$(IN),$(CHECK_$(room)))), \
	    echo "$(ROOM) has no quick checks: make test ROOM=$(ROOM)";) exit $$failed
# Where pytest looks. The tests of the lab are a part of `make full`.
PYTESTED = $(filter-out spec proof,$(or $(ROOM),test_dumpulse.py $(filter-out lab,$(ROOMS))))
# As many at a time as two processors can bear, because many tests wait: some rooms set a number.
WORKERS = $(or $(WORKERS_$(ROOM)),4)
PART_python = $(PYTEST) -n $(WORKERS) --dist loadfile -m "not slow and not long" $(PYTESTED)	## quick tests
PART_python-long = $(PYTEST) -n 3 --dist loadfile -m long $(filter-out packages,$(PYTESTED))	## long tests of all rooms but packages
PART_python-slow = $(PYTEST) -n 3 --dist loadfile -m "slow and not long" $(PYTESTED) ## slow tests
UNITS = $(foreach room,$(IN),$(UNITS_$(room)))
PART_unit = $(UNITS:%=% || failed=1;) exit $$failed	## cmocka tests

# The parts of each tier, and what is built before. No tier runs again what another one has.
PARTS_test = $(if $(PYTESTED),python) $(if $(UNITS),unit) $(foreach room,$(IN),$(QUICK_$(room)))
NEEDS_unit = $(UNITS)
FIRST_test = $(UNITS) $(foreach room,$(IN),$(BUILT_$(room)))
PARTS_full = python-slow lint builds mutants mutants-sample storm server-sanitized fuzz-server \
    check-pages proof proof-smoke proof-eva proof-mutants models lab-short lab-test $(TODAYS)
FIRST_full = $(PROGRAMS) $(BUILT_FULL) $(foreach room,$(ROOMS),$(BUILT_$(room)))
FIRST_portions = $(FIRST_full)
# Long parts, and how many portions each has: a portion takes at most 3 minutes on two idle cores.
# `make full` runs one of all, by the number of commits. NAME.KofN has PORTION=K/N: each N-th case,
# from the K-th on. It has the options $(AT), and chooses from lists by $(call chosen,WORDS).
PORTIONS := mutants-keyed:24 mutants-server:300 storm:50 storm-calls:1 \
    planted:10 explore:1 proof-keyed:24 proof-mutants:24 proof-weaker:40 \
    python-long:12 vectors-others:1 builds:3 server-valgrind:1
EACH = $(shell printf '%s\n' $(PORTIONS) | awk -F: '{while (k++ < $$2) print $$1"."k"of"$$2; k=0}')
COMMITS = $(shell git rev-list --count HEAD)
TODAYS = $(word $(shell expr 1 + $(COMMITS) % $(words $(EACH))),$(EACH))
AT = $(PORTION:%=--portion %)
chosen = $(shell printf '%s\n' $1 | sed -n '$(subst /,~,$(or $(PORTION),1/1))p')
# What a portion tries by chance is new in each commit, and the same again in this one.
NEW = $(COMMITS)$(firstword $(subst /, ,$(PORTION)))000
PARTS_portions = $(EACH) $(PARTS_packages)
PARTS_packages := packages-debian packages-tools
test: ##! the quick tests; ROOM=server: those of one room
full: ##! the rest of what must pass before a change lands
portions: ## every portion of the long parts, and the packages
packages: ##! build and test every package, with the tools' own programs
# Three parts run at a time in `make full`, because some mostly wait. All run, even after a failure,
# and a table of their seconds follows. LEFT_OUT: tools are missing. The seed is always the same.
test full portions packages: export DUMPULSE_SEED ?= 1
test full portions packages: PARTS = $(filter-out $(LEFT_OUT),$(PARTS_$@))
test full portions packages:
	@tools/setup $(if $(filter test,$@),$(if $(filter lab,$(ROOM)),,--quick))
	@$(MAKE) --no-print-directory -j2 build/flags $(FIRST_$@)
	@rm -rf $(LOG)
	@$(MAKE) --no-print-directory -k -j$(if $(filter full,$@),3,2) $(PARTS:%=part-%) || :
	@$(if $(filter full,$@),echo "== $(TODAYS) is the portion of this commit";)
	@$(foreach part,$(filter $(LEFT_OUT),$(PARTS_$@)),echo "== $(part): $(WHY_LEFT_OUT)";)
	@echo "==          wall s processor s  part"; for part in $(PARTS); do \
	cat $(LOG)/$$part.time 2>/dev/null || echo "missing 0 0 0 $$part"; done | \
	awk -v wall=$$(($$(date +%s) - $(BEGAN))) -v form='== %-8s%8.1f%12.1f  %s\n' '{gsub(",", "."); \
	    printf form, $$1, $$2, $$3 + $$4, $$5; sum += $$3 + $$4; failed += $$1 !~ "passed|recorded"} \
	    END {printf form, failed ? "FAILED" : "passed", wall, sum, "all"; exit failed != 0}'
BEGAN := $(shell date +%s)
LOG := build/log

# A part is a room's PART_name, a command, for which NEEDS_name is built before. If it has several,
# all of them run: `|| failed=1;` ends each, and `exit $$failed` ends the part. A part prints its
# output in one piece, keeps it in build/log, and may take an hour. READS_name are all files of a
# part that tests/recorded.tsv records: it runs if one has changed, and in one of five commits.
run_part = $(or $(PART_$1),echo "there is no part '$1': make part lists them" >&2; exit 2)
part-%: SHELL := /bin/bash
part-%: PORTION = $(subst of,/,$(subst .,,$(suffix $*)))
part-%: export COMMAND = $(call run_part,$(basename $*))
part-%: $$(NEEDS_$$(basename $$*))
	@mkdir -p $(LOG); status=0; TIMEFORMAT='%R %U %S $*'; inputs=; reads="$(READS_$*)"; \
	if [ "$$reads" ] && inputs=$$($(PYTHON) -m tools.recorded due $* $$reads) && \
	    [ -z "$$inputs" ]; then echo "== $* is recorded: it has passed with the same inputs"; \
	    echo "recorded 0 0 0 $*" >$(LOG)/$*.time; exit; fi; echo "== $* begins"; \
	{ time MAKEFLAGS= timeout --foreground --kill-after=60 60m \
	    sh -ec "$$COMMAND" >$(LOG)/$* 2>&1; } 2>$(LOG)/$*.time || status=$$?; \
	case $$status in 0) result=passed ;; 124) result=TIMEOUT ;; *) result=FAILED; esac; \
	row=$$(cat $(LOG)/$*.time); echo "$$result $$row" >$(LOG)/$*.time; \
	[ -z "$$inputs" ] || $(PYTHON) -m tools.recorded $$result $* $$inputs $$reads; \
	cat $(LOG)/$*; echo "== $* $$result"; exit $$status
lint: ## compiler warnings, clang-tidy, cppcheck, formatting
proof: ##! prove library, watch and version 2
lint proof: ; @$(MAKE) --no-print-directory part ONLY=$@

# A room's TABLE_name prints a table; PLAIN_TABLES need no packages. 141: `head` has enough.
part: $$(NEEDS_$$(ONLY)) | $$(TOOLS) ##! one part of the tests: ONLY=lint; or a list of them
	@$(if $(ONLY),$(call run_part,$(ONLY)),$(call contents,PART,part))
figures: $$(NEEDS_$$(ONLY)) | $$(TOOLS) ##! one table: ONLY=size; or a list of them
	@{ $(if $(ONLY),$(or $(TABLE_$(ONLY)),echo "there is no table '$(ONLY)': make figures" \
	    "lists them" >&2; exit 2),$(call contents,TABLE,figures)); } || \
	    { status=$$?; [ $$status = 141 ] || exit $$status; }
TOOLS = $(if $(filter-out $(PLAIN_TABLES),$(ONLY)),\
    $(if $(filter $(PARTS_test),$(ONLY)),$(QUICK),$(READY)))
# The rooms' lines PART_ and TABLE_, with their texts.
contents = echo "make $2 ONLY=NAME, where NAME is one of:" && \
    sed -n 's/^$1_\([a-z0-9-]*\) = .*\#\# \(.*\)/\1:\2/p' $(MAKEFILE_LIST) | \
    awk -F: '{printf "  %-21s %s\n", $$1, substr($$0, length($$1) + 2)}'
setup: ##! install what all tests need (as root), or print what it is
$(QUICK) $(READY): tools/packages.txt tools/requirements.txt
$(READY): tools/toolchains.txt
setup $(READY): ; @tools/setup
$(QUICK): ; @tools/setup --quick
# What is fetched, or does not depend on the sources.
FETCHED := venv venv-packages toolchains vm debian
clean: ##! remove what was built; packages and compilers stay
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 $(FETCHED:%=! -name %) -exec rm -rf {} +
distclean: ##! remove all that was built or fetched
	@rm -rf build
# With -B, make comes here for source files, too.
.DEFAULT:
	@[ -e "$@" ] || { echo "there is no '$@' to make: make help lists what there is" >&2; exit 2; }
# Every target with a help text is no file.
.PHONY: FORCE no-space $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' $(MAKEFILE_LIST))

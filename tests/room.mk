# The tests of the library, and what looks at the whole project.   SPDX-License-Identifier: MIT
UNITS_tests := build/unit-keyed
QUICK_tests := vectors
BUILT_tests = $(NEEDS_vectors) build/libdumpulse.a
# The programs of `make check`, and the sources of each beside tests/NAME.c.
SOURCES_vectors := dumpulse.c
SOURCES_vectors_watch := $(WATCH_C)
SOURCES_vectors_keyed := $(KEYED_C) dumpulse.c
CHECKED_tests = $(VECTORS:%=build/check/%) $(TSV)
CHECK_tests = $(foreach name,$(VECTORS),build/check/$(name) build/vectors/$(name).tsv || failed=1;)
build/check/%: tests/%.c $$(SOURCES_$$*) $(HEADERS) build/flags
	$(LINK)
$(call add,unit-keyed,gcc,$(SANITIZERS),tests/unit_keyed.c $(KEYED_C) dumpulse.c,-lcmocka)
# The vectors of the library, of the watch and of the part with keys, by several compilers.
build_vectors = $(foreach name,$(VECTORS),\
    $(call add,$(name)-$1,$2,,tests/$(name).c $(SOURCES_$(name))))
$(call build_vectors,amd64,gcc)
$(call build_vectors,gcc,gcc $(SANITIZERS))
$(call build_vectors,clang,clang $(SANITIZERS))
$(call build_vectors,i386,i686-linux-gnu-gcc -static)
$(call build_vectors,powerpc,powerpc-linux-gnu-gcc -static)
run_vectors = $(foreach name,$(VECTORS),$2 build/$(name)-$1 build/vectors/$(name).tsv || failed=1;)
NEEDS_vectors = $(foreach v,$(VECTORS),build/$v-amd64 build/$v-gcc) $(TSV)
NEEDS_vectors-others = $(foreach by,i386 powerpc clang,$(VECTORS:%=build/%-$(by))) $(TSV)
check_vectors = $(call run_vectors,amd64) $(call run_vectors,amd64,$(VALGRIND)) \
    $(call run_vectors,gcc)
PART_vectors = $(check_vectors) exit $$failed	## test vectors: plain, in valgrind, sanitized
check_others = $(foreach by,$(call chosen,i386 powerpc clang),\
    $(call run_vectors,$(by),$(if $(filter p%,$(by)),qemu-ppc)))
PART_vectors-others = $(check_others) exit $$failed	## the same on i386, on PowerPC and by clang
$(foreach part,storm storm-calls planted,$(eval NEEDS_$(part) = build/storm build/storm-can))
# Stories of udpserver, canserver and an image; in portions others, which may lack a claim.
tell_storm = $(if $(PORTION),build/storm --count 600 $1 || failed=1; \
    build/storm-can --count 120 $1,$(PYTHON) -m tests.storm.blocks --least 75) || failed=1; \
    $(PYTHON) -m tests.storm.images --count 12 $(or $1,--counts) || failed=1; exit $$failed
PART_storm = $(call tell_storm,$(PORTION:%=--from $(NEW)))	## stories of the whole system
fail_each = $(foreach storm,storm storm-can,build/$(storm) --fail-each 1 || failed=1;)
PART_storm-calls = $(fail_each) exit $$failed	## each call of the system fails once
PART_planted = $(PYTHON) -m tests.storm.planted $(AT)	## does the storm notice planted mistakes?
READS_mutants := dumpulse.c dumpulse.h extras spec tools Makefile */room.mk \
    $(addprefix tests/,exports*.c vectors.c vectors.h vectors_watch.c mutants.py survivors.tsv \
    test_targets.py)
explore = HYPOTHESIS_PROFILE=explore $(PYTEST) --hypothesis-seed=$(NEW) test_dumpulse.py
PART_explore = $(explore)	## Hypothesis: many new examples
PART_lint = tests/lint ## compiler warnings, clang-tidy, cppcheck, formatting
PART_builds = tests/builds $(if $(PORTION),$(call chosen,clang i386 hardened),gcc) ## make check
BREAK := $(PYTHON) -m tests.mutants
PART_mutants = $(BREAK) library $(ARGS)	## break the library: does a test notice?
PART_mutants-keyed = $(BREAK) keyed $(AT) $(ARGS)	## break dumpulse_keyed; ARGS="--portion 1/20"
PART_mutants-server = $(BREAK) server $(AT) $(ARGS)	## break udpserver
PART_mutants-sample = $(BREAK) keyed --portion 7/28	## a few of them, the same every time
TABLE_messages = python3 -m tools.messages ## all messages and help texts of the programs
weigh: ## files and lines of each room, by kind
	@python3 -m tools.weigh

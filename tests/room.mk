# The tests of the library, and what looks at the whole project.   SPDX-License-Identifier: MIT
TESTED_tests := test_dumpulse.py tests
CHECKED_tests = $(addprefix build/check/,vectors vectors-watch vectors-keyed exhaustive) \
    $(SHORT)
CHECK_tests := build/check/vectors spec/vectors.tsv; \
    build/check/vectors-watch build/short/vectors_watch.tsv; \
    build/check/vectors-keyed build/short/vectors_keyed.tsv; build/check/exhaustive
QUICK_tests := unit vectors-amd64 vectors-gcc-sanitized vectors-valgrind exhaustive
BUILT_tests = $(NEEDS_unit) $(filter %-amd64 %-gcc-sanitized,$(VECTOR_PROGRAMS)) $(LONG) \
    build/exhaustive build/names.so build/libdumpulse.a
FULL += python-slow vectors-i386 vectors-powerpc vectors-sanitized lint builds mutants \
    mutants-sample differential watching coverage storm
NIGHTLY += mutants-keyed mutants-server mutants-client explore storm-long

build/check/vectors: SOURCES = tests/vectors.c dumpulse.c
build/check/vectors-watch: SOURCES = tests/vectors_watch.c $(WATCH_C)
build/check/vectors-keyed: SOURCES = tests/vectors_keyed.c $(KEYED_C) dumpulse.c
build/check/exhaustive: SOURCES = tests/exhaustive.c dumpulse.c
$(filter build/check/%,$(CHECKED_tests)): build/check/%: \
    $(wildcard dumpulse.[ch] extras/*.[ch] tests/*.[ch]) build/flags
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) $(SOURCES) $(LDFLAGS) -o $@

$(call add,unit-keyed,gcc,$(SANITIZERS),tests/unit_keyed.c $(KEYED_C) dumpulse.c,-lcmocka)
NEEDS_unit := build/unit-keyed
PART_unit = build/unit-keyed ## cmocka tests of the part with keys

# Programs and their vectors: of the library, of the watch, and of the part with keys.
VECTORS := vectors:vectors vectors-watch:vectors_watch vectors-keyed:vectors_keyed
VECTOR_KINDS := amd64 i386 powerpc sanitized gcc-sanitized
COMPILER_amd64 := gcc
COMPILER_i386 := i686-linux-gnu-gcc -static
COMPILER_powerpc := powerpc-linux-gnu-gcc -static
COMPILER_sanitized := clang $(SANITIZERS)
COMPILER_gcc-sanitized := gcc $(SANITIZERS)
$(foreach kind,$(VECTOR_KINDS),\
    $(call add,vectors-$(kind),$(COMPILER_$(kind)),,tests/vectors.c dumpulse.c)\
    $(call add,vectors-watch-$(kind),$(COMPILER_$(kind)),,tests/vectors_watch.c $(WATCH_C))\
    $(call add,vectors-keyed-$(kind),$(COMPILER_$(kind)),,\
        tests/vectors_keyed.c $(KEYED_C) dumpulse.c))
VECTOR_PROGRAMS := $(filter build/vectors%,$(PROGRAMS))
VALGRIND := valgrind --quiet --leak-check=full --error-exitcode=1
$(foreach kind,$(VECTOR_KINDS),\
    $(eval NEEDS_vectors-$(kind) = $(filter %-$(kind),$(VECTOR_PROGRAMS)) $(LONG)))
NEEDS_vectors-valgrind = $(NEEDS_vectors-amd64)
# A kind of program, and what runs it.
run_vectors = for each in $(VECTORS); do echo -n "$1 $${each%:*}: "; \
    $2 build/$${each%:*}-$1 build/long/$${each\#*:}.tsv || exit 1; done
PART_vectors-amd64 = $(call run_vectors,amd64) ## the vectors, long, in a plain program
PART_vectors-i386 = $(call run_vectors,i386) ## the same with 32 bits
PART_vectors-powerpc = $(call run_vectors,powerpc,qemu-ppc) ## the same with the highest byte first
PART_vectors-sanitized = $(call run_vectors,sanitized) ## the same, and clang looks for errors
PART_vectors-gcc-sanitized = $(call run_vectors,gcc-sanitized) ## the same, and gcc does
PART_vectors-valgrind = $(call run_vectors,amd64,$(VALGRIND)) ## in valgrind

$(call add,exhaustive,gcc,-O2,tests/exhaustive.c dumpulse.c)
NEEDS_exhaustive = build/exhaustive
PART_exhaustive = build/exhaustive ## all 2^24 packets with the magic number
STORM_IMAGES := uart_atmega328p can_stm32-f4 can_avr-keyed uart_attiny85
NEEDS_storm = build/storm build/storm-can $(STORM_IMAGES:%=build/firmware/%.elf) \
    build/sim/serial_board build/sim/can_board
NEEDS_storm-long = $(NEEDS_storm)
tell_storm = build/storm --seconds $1 $2 && build/storm-can --seconds $1 $2 && \
    $(PYTHON) -m tests.storm.fleet --seconds $1 --count 100000 $2 && \
    $(PYTHON) -m tests.storm.images --seconds $3 $2
tell_one = $(if $(filter images,$(STORM)),$(PYTHON) -m tests.storm.images,build/$(or \
    $(STORM),storm)) --seed $(SEED) $(LEFT_OUT:%=--left-out %)
# Without SEED, udpserver, canserver and the fleet have 40 s each, and the images 15.
PART_storm = $(if $(SEED),$(tell_one),$(call tell_storm,40,,15))	## stories of the whole system; one: SEED=n
PART_storm-long = $(PYTHON) -m tests.storm.planted && $(call tell_storm,800,--from $$(date +%s),800)	## planted mistakes, and new stories: an hour
storm: $$(NEEDS_storm) ## stories of the whole system; SEED=n tells one again

$(call add,names.so,gcc,-O2 -shared -fPIC,\
    tests/names.c $(patsubst %,server/%.c,counters limits log names options))
PART_differential = $(PYTHON) -m tests.differential $(ARGS)	## code for all targets against the model; ARGS="--count N"
PART_watching = $(PYTHON) -m tests.watching $(ARGS)	## the same for the watch
PART_explore = HYPOTHESIS_PROFILE=explore $(PYTEST) test_dumpulse.py	## Hypothesis: many new examples

weigh: ## files and lines of each room, by kind
	@python3 -m tools.weigh

PART_lint = tests/lint ## compiler warnings, clang-tidy, cppcheck, formatting
PART_builds = tests/builds ## make check by gcc, clang, with hardening; make install

check-debian: ## make test in a fresh Debian 12 and 13; root
	@tools/debian bookworm && tools/debian trixie
TABLE_layers = python3 -m tests.layers ## the layers of the project, and what each uses

# ---- the fuzzer: each run has a new seed; a run that fails prints the input that repeats it ----

FUZZER := clang $(SANITIZERS) -fsanitize=fuzzer
# Runs a fuzzer: its name, the longest input, for how many seconds, and what else it is given.
fuzzed = mkdir -p build/fuzz/$1-corpus; build/fuzz/$1 -max_len=$2 -max_total_time=$3 \
    -print_final_stats=1 -artifact_prefix=build/fuzz/$1- $4 2>build/fuzz/$1-log && \
    grep -q '^Done [1-9]' build/fuzz/$1-log || { tail -40 build/fuzz/$1-log; exit 1; }; \
    sed -n 's/^Done \([0-9]*\) runs.*/fuzz $1: \1 passed, 0 failed/p' build/fuzz/$1-log

# What the fuzzer begins with: each word of hexadecimal digits is an input.
build/fuzz/server-seeds: server/tests/fuzz_seeds.hex
	@rm -rf $@ && mkdir -p $@ && python3 -c 'import sys; from pathlib import Path; \
	    [Path(sys.argv[1], str(n)).write_bytes(bytes.fromhex(word)) \
	     for n, word in enumerate(sys.stdin.read().split())]' $@ <$<

NEEDS_replay = build/fuzz/server
PART_replay = $(if $(wildcard $(INPUT)),build/fuzz/server "$(INPUT)",$(NO_INPUT))	## the fuzzer with INPUT=FILE again
NO_INPUT = echo "ONLY=replay needs INPUT=FILE, a file that exists" >&2; exit 2

# ---- mutants: ARGS can have --seed N, --count N, --file NAME, --jobs N and --list --------------

BREAK := $(PYTHON) -m tests.mutants
PART_coverage = $(PYTHON) -m tests.coverage ## what the tests in C alone reach
PART_mutants = $(BREAK) library $(ARGS)	## break the library: does a test notice?
PART_mutants-keyed = $(BREAK) keyed $(ARGS)	## break dumpulse_keyed: 15 minutes; ARGS="--count 100"
PART_mutants-server = $(BREAK) server $(ARGS)	## break udpserver: an hour and a half
PART_mutants-client = $(BREAK) client $(ARGS)	## break client.py: an hour and a half
# The mutants of tests/mutants_sample.tsv, each with the one test that notices it.
PART_mutants-sample = $(BREAK) keyed --count 30 && $(BREAK) server --sample && $(BREAK) client --sample	## a few of each, the same every time: a minute

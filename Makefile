# Dumpulse: `make help` lists what can be made. Everything made goes into build/.
# SPDX-License-Identifier: MIT
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

PYTHON := build/venv/bin/python
READY := build/venv/ready
PYTEST := $(PYTHON) -m pytest -q -p no:cacheprovider
LIBRARY := dumpulse.c dumpulse.h
WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wcast-align \
            -Wcast-qual -Wshadow -Werror
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all
COMPILER := gcc
HOST := -std=c99 -O1 -g $(WARNINGS) -I.
FUZZ_SECONDS := 20
# A new seed each time; a failing run prints the input that replays it.
FUZZ := build/fuzz/fuzz -max_len=1024 -print_final_stats=1 -artifact_prefix=build/fuzz/

# What searches for mistaken heartbeats found.
COUNTS := $(addprefix build/reliability/,fewbits.tsv adler.tsv crc.tsv)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

demo: ## build the library and see it at work
	@tools/setup gcc libc6-dev
	@mkdir -p build
	@gcc $(HOST) examples/demo.c dumpulse.c -o build/demo
	@build/demo

# Each of these is a part of `make test`, and prints how it went; check-pages makes size,
# cost and paths, too.
TESTS := check-vectors lint unit vectors exhaustive python differential fuzz-short coverage \
         mutants check-pages proof proof-smoke proof-eva proof-mutants

test: setup ## install what is missing, then run every test
	@for part in $(TESTS); do \
	    echo "== $$part"; \
	    $(MAKE) --no-print-directory $$part || { echo "== $$part FAILED" >&2; exit 1; }; \
	done; echo "== all of: $(TESTS)"

setup: ## install what the tests need (root), or say what is missing
	@tools/setup

size: ## bytes on every target, against their budgets
	@$(PYTHON) -m bench.size

cost: ## cycles and instructions of every packet, against budgets
	@$(PYTHON) -m bench.cost

accepted: build/reliability/accepted ## how many of the 2^64 packets are taken?
	@$<

bias: ## which checksums do heartbeats have?
	@$(PYTHON) -m reliability.bias

bits: $(COUNTS) ## flipped bits that turn a heartbeat into another
	@$(PYTHON) -m reliability.bits

bursts: $(COUNTS) ## bursts that do
	@$(PYTHON) -m reliability.bursts

moved: build/reliability/moved.txt ## swapped, doubled and dropped bytes that do
	@cat $<

report-damage: build/reliability/report ## damaged reports that pass; ARGS="SEED TRIALS"
	@$(PYTHON) -m reliability.report_damage $(ARGS)

channels: $(COUNTS) ## what that means over CAN, UART, I2C and UDP
	@$(PYTHON) -m reliability.channels

residual: $(COUNTS) ## does anybody see a wrong value before the next?
	@$(PYTHON) -m reliability.residual

vectors-file: ## write tests/vectors.tsv again, from the Python model
	@$(PYTHON) -m tests.make_vectors

check-vectors: ## is tests/vectors.tsv what its script writes?
	@$(PYTHON) -m tests.make_vectors --check

pages: ## put what the commands print today into the pages
	@$(PYTHON) -m bench.pages

check-pages: ## do the pages show what the commands print?
	@$(PYTHON) -m bench.pages --check

lint: ## compiler warnings, clang-tidy, cppcheck, formatting
	@tests/lint

unit: build/unit ## cmocka tests of the C interface
	@build/unit

VECTOR_RUNS := amd64 i386 powerpc sanitized gcc-sanitized valgrind
vectors: $(VECTOR_RUNS:%=vectors-%) ## the vectors on 32-bit, big-endian, sanitized programs

vectors-amd64 vectors-i386 vectors-sanitized vectors-gcc-sanitized: vectors-%: build/vectors-%
	@echo -n "$*: "; $< tests/vectors.tsv

vectors-powerpc: build/vectors-powerpc
	@echo -n "powerpc: "; qemu-ppc $< tests/vectors.tsv

vectors-valgrind: build/vectors-amd64 build/unit
	@for program in "build/unit" "build/vectors-amd64 tests/vectors.tsv"; do \
	    valgrind --quiet --leak-check=full --error-exitcode=1 $$program >build/valgrind.log 2>&1 \
	        || { cat build/valgrind.log; exit 1; }; \
	    echo "valgrind: $$(tail -1 build/valgrind.log)"; \
	done

differential: ## AVR, Thumb, RISC-V against the model; ARGS="--count N …"
	@$(PYTHON) -m tests.differential $(ARGS)

paths: ## every path of the AVR code, with all 2^64 packets at once
	@$(PYTHON) -m proof.avr

exhaustive: build/exhaustive ## all 2^24 packets with the magic number, right and wrong
	@build/exhaustive

python: ## Hypothesis; the vectors on AVR, Thumb, RISC-V; the README
	@$(PYTEST) test_dumpulse.py tests

fuzz-short: build/fuzz/fuzz ## libFuzzer for 20 seconds, from the corpus
	@mkdir -p build/fuzz/corpus
	@$(FUZZ) -max_total_time=$(FUZZ_SECONDS) build/fuzz/corpus tests/corpus 2>build/fuzz/log \
	    || { tail -40 build/fuzz/log; exit 1; }
	@grep -q '^Done [1-9]' build/fuzz/log || { cat build/fuzz/log; exit 1; }
	@sed -n 's/^Done \([0-9]*\) runs.*/fuzz: \1 passed, 0 failed/p' build/fuzz/log

fuzz: build/fuzz/fuzz ## libFuzzer until interrupted; finds go to build/fuzz/corpus
	@mkdir -p build/fuzz/corpus
	$(FUZZ) -jobs=0 build/fuzz/corpus tests/corpus

fuzz-replay: ## run one input again: INPUT=build/fuzz/crash-…
	@test -f "$(INPUT)" || { echo "make fuzz-replay needs INPUT=FILE, a file that exists" >&2; exit 2; }
	@$(MAKE) --no-print-directory build/fuzz/fuzz
	build/fuzz/fuzz "$(INPUT)"

proof: ## prove the library against proof/spec.h; 4 minutes
	@proof/prove

proof-smoke: ## do no assumptions of the proof contradict each other?
	@proof/prove --smoke

proof-eva: ## a second opinion on undefined behaviour
	@proof/prove --eva

proof-mutants: ## break the library: does the proof notice? 4 minutes
	@proof/mutants

coverage: ## what the unit tests alone reach
	@$(PYTHON) -m tests.coverage

mutants: ## break the library: does a test notice?
	@$(PYTHON) -m tests.mutants

explore: ## Hypothesis with new and many more examples; minutes
	@HYPOTHESIS_PROFILE=explore $(PYTEST) test_dumpulse.py

clean: ## remove what was made, but for the Python packages
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name venv -exec rm -rf {} +

.DEFAULT:
	@echo "there is no '$@' to make: make help lists what there is" >&2; exit 2

# Every program of the tests: its compiler, its sources and what else it needs.
VECTOR_PROGRAMS := $(addprefix build/vectors-,amd64 i386 powerpc sanitized gcc-sanitized)
PROGRAMS := build/unit build/exhaustive build/fuzz/fuzz $(VECTOR_PROGRAMS) \
            build/reliability/accepted build/reliability/report
build/unit: tests/unit.c
build/unit: LINK := -lcmocka
build/exhaustive: tests/exhaustive.c
build/exhaustive: MORE := -O2
build/fuzz/fuzz: tests/fuzz.c
build/fuzz/fuzz: COMPILER := clang
build/fuzz/fuzz: MORE := $(SANITIZERS) -fsanitize=fuzzer
$(VECTOR_PROGRAMS): tests/vectors.c
build/vectors-i386: COMPILER := i686-linux-gnu-gcc
build/vectors-i386: MORE := -static
build/vectors-powerpc: COMPILER := powerpc-linux-gnu-gcc
build/vectors-powerpc: MORE := -static
build/vectors-sanitized: COMPILER := clang
build/vectors-sanitized build/vectors-gcc-sanitized: MORE := $(SANITIZERS)
build/reliability/accepted: reliability/accepted.c
build/reliability/report: reliability/report.c
build/reliability/accepted build/reliability/report: MORE := -O2
$(PROGRAMS): $(LIBRARY) | $(READY)
	@mkdir -p $(@D)
	@$(COMPILER) $(HOST) $(MORE) $(filter %.c,$^) $(LINK) -o $@

# They need the header alone, and a speed.
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

# What tools/setup makes last of all: where it is up to date, everything is there.
$(READY): tools/packages.txt tools/requirements.txt
	@tools/setup
RELIABILITY := accepted bias bits bursts moved report-damage channels residual
$(TESTS) $(RELIABILITY) size cost paths vectors-file explore pages: | $(READY)

.PHONY: help demo test setup size cost paths $(TESTS) $(VECTOR_RUNS:%=vectors-%) vectors-file pages fuzz \
        $(RELIABILITY) fuzz-replay explore clean

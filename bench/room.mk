# What the library and the servers cost.   SPDX-License-Identifier: MIT
TESTED_bench := bench/tests
BUILT_bench = $(SIMULATORS) build/reliability/accepted build/reliability/report
QUICK_bench := budgets
FULL += check-pages

# Searches for mistaken heartbeats, and their results.
$(call add,reliability/accepted,gcc,-O2,bench/reliability/accepted.c dumpulse.c)
$(call add,reliability/report,gcc,-O2,bench/reliability/report.c dumpulse.c)
$(call add,loopbench,gcc,-O2,loopbench.c dumpulse.c)
$(foreach name,fewbits distances,\
    $(call add,reliability/$(name),gcc,-O3,bench/reliability/$(name).c))
COUNTS := $(addprefix build/reliability/,fewbits.tsv adler.tsv crc.tsv)
build/reliability/fewbits.tsv: build/reliability/fewbits
	@echo "trying all flips of up to 4 bits: 20 seconds" >&2
	@$< >$@
build/reliability/adler.tsv: build/reliability/distances
	@$< >$@
build/reliability/crc.tsv: build/reliability/distances
	@$< crc >$@
BUILT_FULL_bench = $(COUNTS)

PART_budgets = $(PYTHON) -m bench.size --quick && $(PYTHON) -m bench.cost --quick	## sizes and costs by the compilers that make test has
TABLE_size = $(PYTHON) -m bench.size ## bytes on every target, against budgets
TABLE_cost = $(PYTHON) -m bench.cost ## cycles and instructions of every packet, against budgets
TABLE_keyed = $(PYTHON) -m bench.keyed ## sizes and costs of agents, nodes and readers with keys
$(foreach name,bits bursts channels,$(eval NEEDS_$(name) = $(COUNTS)))
NEEDS_accepted = build/reliability/accepted
TABLE_accepted = build/reliability/accepted ## how many of the 2^64 packets are taken?
TABLE_bits = $(PYTHON) -m bench.reliability.bits ## flipped bits that turn a heartbeat into another
TABLE_bursts = $(PYTHON) -m bench.reliability.bursts ## bursts that turn a heartbeat into another
NEEDS_report-damage = build/reliability/report
TABLE_report-damage = $(PYTHON) -m bench.reliability.report_damage $(ARGS)	## damaged reports that pass; ARGS="SEED TRIALS"
TABLE_channels = $(PYTHON) -m bench.reliability.channels	## how often that happens over CAN, UART, I2C and UDP
TABLE_worst = $(PYTHON) -m bench.worst ## the least and the most that any packet may cost
TABLE_instructions = $(PYTHON) -m bench.instructions	## what valgrind counts in udpserver, for packets
TABLE_summary = $(PYTHON) -m bench.summary ## what a packet costs, beside the first implementation
NEEDS_loopbench = build/loopbench
TABLE_loopbench = build/loopbench $(PACKETS)	## ns a packet on this machine; noisy; PACKETS=1000000000

pages: ## put what the commands print today into the pages
	@$(PYTHON) -m bench.pages

PART_check-pages = $(PYTHON) -m bench.pages --check	## do the pages show what the commands print?

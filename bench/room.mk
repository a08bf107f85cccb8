# What the library and the servers cost.   SPDX-License-Identifier: MIT
QUICK_bench := budgets
BUILT_bench = $(SIMULATORS) build/reliability/accepted build/reliability/report
BUILT_FULL += $(COUNTS)
$(call add,reliability/accepted,gcc,-O2,bench/reliability/accepted.c dumpulse.c)
$(call add,reliability/report,gcc,-O2,bench/reliability/report.c dumpulse.c)
$(call add,reliability/fewbits,gcc,-O3,bench/reliability/fewbits.c)
$(call add,reliability/distances,gcc,-O3,bench/reliability/distances.c)
COUNTS := $(patsubst %,build/reliability/%.tsv,fewbits adler crc)
build/reliability/fewbits.tsv: build/reliability/fewbits ; @$< >$@
build/reliability/adler.tsv: build/reliability/distances ; @$< >$@
build/reliability/crc.tsv: build/reliability/distances ; @$< crc >$@
$(call add,loopbench,gcc,-O2,loopbench.c dumpulse.c)
PART_budgets = $(PYTHON) -m bench.size --quick || failed=1; $(PYTHON) -m bench.cost --quick || failed=1; exit $$failed	## sizes and costs by the compilers that make test has
READS_check-pages := performance.md $(LIBRARY) udpserver.c loopbench.c bench extras firmware \
    lab proof server spec tools tests/exports*.c Makefile */room.mk
PART_check-pages = $(PYTHON) -m bench.pages --check ## do the pages show what the commands print?
pages: | $(READY) ##! write new figures into the pages
	@$(PYTHON) -m bench.pages
NEEDS_accepted = build/reliability/accepted
NEEDS_loopbench = build/loopbench
TABLE_size = $(PYTHON) -m bench.size ## bytes on every target, against budgets
TABLE_cost = $(PYTHON) -m bench.cost ## cycles and instructions of every packet, against budgets
TABLE_keyed = $(PYTHON) -m bench.keyed ## sizes and costs of agents, nodes and readers with keys
TABLE_accepted = build/reliability/accepted ## how many of the 2^64 packets are accepted?
TABLE_bits = $(PYTHON) -m bench.reliability.bits ## flipped bits that turn a heartbeat into another
TABLE_bursts = $(PYTHON) -m bench.reliability.bursts ## bursts that turn a heartbeat into another
TABLE_report-damage = $(PYTHON) -m bench.reliability.report_damage $(ARGS)	## damaged reports that pass; ARGS="SEED TRIALS"
TABLE_channels = $(PYTHON) -m bench.reliability.channels	## how often that happens over UART, I2C and UDP
TABLE_worst = $(PYTHON) -m bench.worst ## the least and the most that any packet may cost
TABLE_instructions = $(PYTHON) -m bench.instructions	## what valgrind counts in udpserver, for packets
TABLE_summary = $(PYTHON) -m bench.summary ## what a packet costs, beside the first implementation
TABLE_loopbench = build/loopbench $(PACKETS)	## ns a packet on this machine; noisy; PACKETS=1000000000

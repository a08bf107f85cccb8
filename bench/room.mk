# What the library and the servers cost.   SPDX-License-Identifier: MIT
QUICK_bench := budgets
BUILT_bench = $(SIMULATORS) build/pairs
BUILT_FULL += build/search.tsv
$(call add,pairs,gcc,-O3,bench/pairs.c)
build/search.tsv: build/pairs ; @$< search >$@
$(call add,loopbench,gcc,-O2,loopbench.c dumpulse.c)
PART_budgets = $(foreach table,size cost,$(PYTHON) -m bench.$(table) --quick &&) :	## sizes, costs
READS_check-pages := performance.md $(LIBRARY) udpserver.c loopbench.c bench extras firmware \
    lab proof server spec tools tests/exports*.c Makefile */room.mk
PART_check-pages = $(PYTHON) -m bench.pages --check ## do the pages show what the commands print?
pages: | $(READY) ##! write new figures into the pages
	@$(PYTHON) -m bench.pages
NEEDS_loopbench = build/loopbench
TABLE_size = $(PYTHON) -m bench.size ## bytes on every target, against budgets
TABLE_cost = $(PYTHON) -m bench.cost ## cycles and instructions of every packet, against budgets
TABLE_keyed = $(PYTHON) -m bench.keyed ## sizes and costs of agents, nodes and readers with keys
TABLE_bits = $(PYTHON) -m bench.reliability bits ## flipped bits that turn a heartbeat into another
TABLE_bursts = $(PYTHON) -m bench.reliability bursts ## bursts that turn a heartbeat into another
TABLE_report-damage = $(PYTHON) -m bench.reliability report-damage ## damaged reports that pass
TABLE_channels = $(PYTHON) -m bench.reliability channels	## that over UART, I2C and UDP
TABLE_worst = $(PYTHON) -m bench.worst ## the most that any packet may cost
TABLE_instructions = $(PYTHON) -m bench.instructions	## valgrind's counts of udpserver
TABLE_summary = $(PYTHON) -m bench.summary ## what a packet costs, beside the first implementation
TABLE_loopbench = build/loopbench $(PACKETS)	## ns a packet on this machine, noisy

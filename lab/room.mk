# The lab's targets; lab/README.md is its page.   SPDX-License-Identifier: MIT
lab: | $(READY) ##! what a verified message costs: all counts and tables
	@$(foreach table,counts published answer choices,\
	    $(TABLE_lab-$(table)) || failed=1;) exit $$failed
lab-scheme: | $(READY) ##! count a scheme of yours: PQALG=folder with api.h
	@$(PYTHON) -m lab.joules.scheme $(PQALG) $(if $(TARGETS),--targets $(TARGETS))
READS_lab-short := lab bench proof spec tools dumpulse.c dumpulse.h extras Makefile */room.mk
READS_lab-test := $(READS_lab-short) packages
PART_lab-short = $(PYTHON) -m lab.messages.counts --quick	## count the quick ones, and compare
PART_lab-test = $(PYTEST) -n 2 --dist loadfile lab ## all tests of the lab
TABLE_lab-sources = $(PYTHON) -m lab.sources	## fetch the code of the lab's schemes
TABLE_lab-counts = $(PYTHON) -m lab.messages.counts $(ARGS)	## count all, and compare; ARGS=--write
TABLE_lab-board = $(PYTHON) -m lab.joules.board $(ARGS)	## the images of the power sandwich
PLAIN_TABLES := $(addprefix lab-,answer choices published)
PRINTER = $(or $(wildcard $(PYTHON)),python3)
TABLE_lab-answer = $(PRINTER) -m lab.messages.answer $(ARGS)	## what a message costs a node
TABLE_lab-choices = $(PRINTER) -m lab.messages.answer --choices	## which check for which node
TABLE_lab-published = $(PRINTER) -m lab.messages.published	## published joules, and counts

# The lab's targets; lab/README.md is its page.   SPDX-License-Identifier: MIT
LAB := lab lab-sources lab-counts lab-short lab-table lab-answer lab-fits lab-energy lab-wire \
       lab-sent lab-studies lab-formats lab-trial

lab: lab-counts lab-wire lab-energy ##! what a verified message costs: all counts and tables
	@$(MAKE) --no-print-directory -s lab-table lab-formats lab-studies lab-trial lab-answer lab-fits

lab-sources: ## fetch the code of the lab's schemes
	@$(PYTHON) -m lab.sources

lab-counts: ## count all, and compare; ARGS="--only WORDS --write"
	@$(PYTHON) -m lab.counts $(ARGS)

lab-short: ## count what is quick, and compare with what is kept
	@$(PYTHON) -m lab.counts --quick

lab-table: ## the counts, in one table for each family
	@$(PYTHON) -m lab.table

lab-answer: ## what a message costs a node; ARGS="--every 10s"
	@$(PYTHON) -m lab.answer $(ARGS)

lab-fits: ## what an ATmega328P has room for beside the agent
	@$(PYTHON) -m lab.answer --fits

lab-energy: ## published joules beside the lab's model
	@$(PYTHON) -m lab.published

lab-wire: ## what sending costs, in bytes and packets; as root
	@$(PYTHON) -m lab.wire $(ARGS)

lab-sent: ## the counts of lab-wire, as they are kept
	@$(PYTHON) -m lab.wire --kept

lab-studies: ## what an older study asked of a laptop, answered by counts
	@$(PYTHON) -m lab.studies

lab-trial: ## the counts beside those of an earlier trial
	@$(PYTHON) -m lab.trial

lab-formats: ## which format is cheapest on which machine
	@$(PYTHON) -m lab.formats

# The lab's targets; lab/README.md is its page.   SPDX-License-Identifier: MIT
LAB := lab lab-sources lab-counts lab-short lab-table lab-answer lab-fits lab-energy lab-wire \
       lab-sent lab-studies lab-formats lab-trial lab-board lab-operations lab-programs \
       lab-predict lab-bridge lab-mislead lab-time lab-keyed

lab: ##! what a verified message costs: all counts and tables
	@$(MAKE) --no-print-directory -s -j2 lab-counts lab-wire
	@$(MAKE) --no-print-directory -s lab-bridge lab-energy lab-table lab-formats lab-studies \
	    lab-trial lab-answer lab-fits lab-operations lab-predict lab-mislead

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

lab-keyed: ## what version 2 costs beside version 1 and other tags
	@$(PYTHON) -m lab.keyed

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

lab-board: ## the images of the power sandwich; ARGS="--only WORDS"
	@$(PYTHON) -m lab.joules.board $(ARGS)

lab-operations: ## group operations of signatures and commitments
	@$(PYTHON) -m lab.operations

lab-programs: ## count programs of group operations, and compare; ARGS=FILE
	@$(PYTHON) -m lab.programs $(ARGS)

lab-predict: ## predict a scheme's cost; ARGS="--scheme ps18 --target m4"
	@$(PYTHON) -m lab.predict $(ARGS)

lab-bridge: ## measure the operations of lab-predict again, and compare
	@$(PYTHON) -m lab.predict --measure $(ARGS)

lab-mislead: ## benchmarks that mislead, beside those that do not
	@$(PYTHON) -m lab.mislead

lab-time: ## time a step; noisy; ARGS="ps18-verify --messages 1,10"
	@$(PYTHON) -m lab.timing $(ARGS)

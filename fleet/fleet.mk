# The fleet's targets; fleet/README.md is its page.   SPDX-License-Identifier: MIT
FLEET := fleet-short fleet-test fleet-bench fleet-soak

fleet-demo: ##! 50 simulated agents, and a wall that shows who is alive
	@tools/setup python3 python3-venv
	@python3 -m fleet.demo

fleet-short: ## the quick tests of the fleet, which make test runs
	@$(PYTEST) $(IN_TIME) $(IN_TWO) fleet -m "not long"

fleet-test: ## all tests of the fleet
	@$(PYTEST) fleet

fleet-bench: ## what a report costs the fleet; ARGS="SECONDS"
	@$(PYTHON) -m fleet.bench $(ARGS)

fleet-soak: ## ages and reboots against the truth; ARGS="REPORTS SEED"
	@$(PYTHON) -m fleet.simulator $(ARGS)

.PHONY: fleet-demo

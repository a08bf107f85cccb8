# The fleet's targets; dumpulse_fleet/README.md is its page.   SPDX-License-Identifier: MIT
WORKERS_dumpulse_fleet := 6 --no-loadscope-reorder # most of its tests wait: see conftest.py
fleet-demo: ##! 50 simulated agents, and a page of which are alive
	@tools/setup gcc libc6-dev python3 python3-venv
	@python3 -m venv build/venv-fleet
	@build/venv-fleet/bin/pip -q install -r dumpulse_fleet/requirements.txt
	@build/venv-fleet/bin/python -m dumpulse_fleet.simulation.demo
PART_fleet-soak = $(PYTHON) -m dumpulse_fleet.simulation.age_oracle $(if $(PORTION),5000000 $(NEW),$(ARGS))	## ages against the truth; ARGS="REPORTS SEED"
TABLE_fleet-picture = $(PYTHON) -m dumpulse_fleet.tests.picture	## take the manual's picture of the wall anew
TABLE_fleet-bench = $(PYTHON) -m dumpulse_fleet.simulation.bench $(ARGS)	## what a report costs the fleet; ARGS="SECONDS"
TABLE_fleet-faults = $(PYTHON) -m dumpulse_fleet.tests.harness.run $(ARGS)	## fleets under faults; ARGS="--seeds 50 --agents 1000"

# The fleet's targets; dumpulse_fleet/README.md is its page.   SPDX-License-Identifier: MIT
WORKERS_dumpulse_fleet := 6 --no-loadscope-reorder # most of its tests wait: see conftest.py
fleet-demo: ##! 50 simulated agents, and a page of which are alive
	@tools/setup gcc libc6-dev python3 python3-venv
	@python3 -m venv build/venv-fleet
	@build/venv-fleet/bin/pip -q install -r dumpulse_fleet/requirements.txt
	@build/venv-fleet/bin/python -m dumpulse_fleet.simulation.demo
TABLE_fleet-picture = $(PYTHON) -m dumpulse_fleet.tests.picture	## the picture of the wall
TABLE_fleet-bench = $(PYTHON) -m dumpulse_fleet.simulation.bench $(ARGS)	## costs; ARGS="SECONDS"
TABLE_fleet-faults = $(PYTHON) -m dumpulse_fleet.tests.harness.run $(ARGS)	## under faults

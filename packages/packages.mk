# The targets of the packages; packages/README.md is their page.   SPDX-License-Identifier: MIT
PACKAGES := packages-debian packages-tools packages-short release

packages: packages-setup ##! build and test every package, with the tools' own programs
	@$(MAKE) --no-print-directory -j2 part-packages-debian part-packages-tools

# About half of it each. The first half builds in clean Debians, and boots one.
IN_DEBIAN := packages/debian packages/fleet packages/test_version.py packages/test_release.py
packages-debian: ## packages for Debian, and whole releases
	@$(PYTEST) $(IN_DEBIAN)

packages-tools: ## packages for all other tools
	@$(PYTEST) packages $(IN_DEBIAN:%=--ignore=%)

packages-short: ## the quick part of that, which make test runs
	@$(PYTEST) $(IN_TIME) packages -m "not long"

packages-setup: $(READY) ## install what make packages needs, or say what it is
	@packages/setup

.PHONY: packages version
version: ## write the version of dumpulse.h to all files that have it
	@python3 -m packages.version

release: packages-setup ##! all of a release, built twice and tested: build/release
	@$(PYTHON) -m packages.release $(ARGS)

# The targets of the packages; packages/README.md is their page.   SPDX-License-Identifier: MIT
PACKAGES := packages packages-short release

packages: packages-setup ##! build and test every package, with the tools' own programs
	@$(PYTEST) packages

packages-short: ## the quick part of that, which make test runs
	@$(PYTEST) packages -m "not long"

packages-setup: $(READY) ## install what make packages needs, or say what it is
	@packages/setup

.PHONY: version
version: ## write the version of dumpulse.h to the files that have it, too
	@python3 -m packages.version

release: packages-setup ##! all of a release, built twice and tested: build/release
	@$(PYTHON) -m packages.release $(ARGS)

# The targets of the packages; packages/README.md is their page.   SPDX-License-Identifier: MIT
TESTED_packages := packages
NIGHTLY += packages-debian packages-tools
NEED_ALL += release

packages: ##! build and test every package, with the tools' own programs
	@$(MAKE) --no-print-directory -j2 part-packages-debian part-packages-tools

# Two parts, which run at the same time. The first one makes whole releases, builds in clean Debians
# and boots one.
IN_DEBIAN := packages/debian packages/fleet packages/test_release.py
PART_packages-debian = $(PYTEST) $(IN_DEBIAN) ## packages for Debian, and whole releases
PART_packages-tools = $(PYTEST) packages $(IN_DEBIAN:%=--ignore=%) ## packages for all other tools
NEEDS_packages-debian = packages-setup
NEEDS_packages-tools = packages-setup

packages-setup: $(READY) ## install what make packages needs, or say what it is
	@packages/setup

version: ## write the version of dumpulse.h to all files that have it
	@python3 -m packages.project --write

release: packages-setup ##! all of a release, built twice and tested: build/release
	@$(PYTHON) -m packages.release $(ARGS)

# ---- make install ----------------------------------------------------------------------------

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
# PYTHONDIR is where the system's Python looks for modules below PREFIX. Another Python may be first
# in the PATH.
PYTHON3 ?= $(firstword $(wildcard /usr/bin/python3) python3)
PYTHONDIR ?= $(shell $(PYTHON3) -c 'import site, sys, sysconfig; prefix = sys.argv[1].rstrip("/"); \
    folders = [each for each in site.getsitepackages() if each.startswith(prefix + "/lib")]; \
    folders.append(sysconfig.get_path("purelib", "posix_prefix", {"base": prefix})); \
    print(folders[0])' '$(PREFIX)')
EXAMPLES_DIR = $(PREFIX)/share/doc/dumpulse/examples

# The files to install, as MODE:FILE:DESTINATION. In a file with the mode "text", /usr/local becomes
# PREFIX.
INSTALLED = \
    $(foreach name,$(SERVERS),755:build/$(name):$(PREFIX)/sbin/$(name) \
        644:server/$(name).8:$(PREFIX)/share/man/man8/$(name).8) \
    $(if $(SERVERS),$(foreach name,dumpulse.service dumpulse.socket dumpulse-can@.service, \
        text:server/units/$(name):$(PREFIX)/lib/systemd/system/$(name))) \
    644:build/libdumpulse.a:$(LIBDIR)/libdumpulse.a \
    644:dumpulse.h:$(PREFIX)/include/dumpulse.h \
    644:extras/dumpulse_watch.h:$(PREFIX)/include/dumpulse_watch.h \
    644:extras/dumpulse_keyed.h:$(PREFIX)/include/dumpulse_keyed.h \
    text:build/dumpulse.pc:$(LIBDIR)/pkgconfig/dumpulse.pc \
    755:client.py:$(PREFIX)/bin/dumpulse \
    644:build/client/dumpulse.1:$(PREFIX)/share/man/man1/dumpulse.1 \
    644:client.py:$(PYTHONDIR)/dumpulse/__init__.py \
    644:/dev/null:$(PYTHONDIR)/dumpulse/py.typed \
    644:build/client/dumpulse.bash:$(PREFIX)/share/bash-completion/completions/dumpulse \
    644:build/client/_dumpulse:$(PREFIX)/share/zsh/site-functions/_dumpulse \
    $(foreach file,examples/vehicle.ini client/examples/nagios.cfg client/examples/icinga2.conf, \
        text:$(file):$(EXAMPLES_DIR)/$(notdir $(file)))

# A list of make ends its entries at spaces: `/a b` would be the file /a, and b in this folder.
no-space:
	@[ -z "$(word 2,$(PREFIX))$(word 2,$(LIBDIR))$(word 2,$(PYTHONDIR))" ] || \
	    { echo "PREFIX, LIBDIR and PYTHONDIR must have no spaces; DESTDIR may" >&2; exit 2; }

install: no-space all build/dumpulse.pc ##! servers, library and client, to DESTDIR and PREFIX
	@[ -n "$(PYTHONDIR)" ] || \
	    { echo "no Python 3 was found: PYTHONDIR=FOLDER says where modules go" >&2; exit 2; }
	@$(PYTHON3) -B -m tools.completion build/client
	@umask 022; for entry in $(INSTALLED); do \
	    mode=$${entry%%:*}; rest=$${entry#*:}; file=$${rest%%:*}; to="$(DESTDIR)$${rest#*:}"; \
	    mkdir -p "$${to%/*}" && rm -f "$$to" && case $$mode in \
	    text) sed 's|/usr/local|$(PREFIX)|' $$file >"$$to" && chmod 644 "$$to" ;; \
	    *) cp $$file "$$to" && chmod $$mode "$$to" ;; esac || exit 1; \
	done

uninstall: no-space ##! remove what make install put there
	@for entry in $(INSTALLED); do rm -f "$(DESTDIR)$${entry##*:}"; done
	@rm -f "$(DESTDIR)$(PYTHONDIR)"/dumpulse/__pycache__/__init__.cpython-*.pyc
	@rmdir "$(DESTDIR)$(PYTHONDIR)/dumpulse/__pycache__" "$(DESTDIR)$(PYTHONDIR)/dumpulse" \
	    "$(DESTDIR)$(EXAMPLES_DIR)" \
	    "$(DESTDIR)$(PREFIX)/share/doc/dumpulse" 2>/dev/null || \
	    true # other files may be in these folders

# What pkg-config reads. `make install` replaces /usr/local by PREFIX.
build/dumpulse.pc: packages/pkgconfig/dumpulse.pc.in dumpulse.h FORCE
	@mkdir -p $(@D)
	@sed -e "s|@version@|$$(sed -n 's/^#define DUMPULSE_VERSION "\([^"]*\)".*/\1/p' dumpulse.h)|" \
	    -e 's|@prefix@|/usr/local|' -e 's|@includedir@|$${prefix}/include|' \
	    -e 's|@libdir@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' $< >$@.$$$$ && \
	    mv $@.$$$$ $@

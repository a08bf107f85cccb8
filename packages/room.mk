# The targets of the packages; packages/README.md is their page.   SPDX-License-Identifier: MIT
# The first part makes whole releases, builds in clean Debians and boots one.
IN_DEBIAN := packages/debian packages/fleet packages/test_release.py
PART_packages-debian = $(PYTEST) $(IN_DEBIAN) ## packages for Debian, and whole releases
PART_packages-tools = $(PYTEST) packages $(IN_DEBIAN:%=--ignore=%) ## packages for all other tools
$(foreach part,debian tools,$(eval NEEDS_packages-$(part) = packages-setup))
packages-setup: $(READY) ## install what make packages needs, or print what it is
	@packages/setup
rehearse: packages-setup ##! run the commands of a release's pages in fresh Debians
	@$(PYTHON) -m packages.debian.rehearse $(ARGS)
version: ## write the version of dumpulse.h to all files that have it
	@python3 -m packages.project --write
release: packages-setup ##! the long tests, then all of a release: build/release
	@$(PYTHON) -m packages.release --check
	@$(if $(filter --check,$(ARGS)),,$(MAKE) --no-print-directory portions ARGS=)
	@$(if $(filter --check,$(ARGS)),,$(PYTHON) -m packages.release $(ARGS))
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
# The client needs Python 3.9. PYTHONDIR is where the system's Python looks for modules below
# PREFIX; another Python may be first in the PATH. FOUND is empty if there is no such Python.
PYTHON3 ?= $(firstword $(wildcard /usr/bin/python3) python3)
SEARCH := import site, sys, sysconfig; sys.version_info < (3, 9) and sys.exit(); \
    prefix = sys.argv[1].rstrip("/"); \
    print(*[path for path in site.getsitepackages() if path.startswith(prefix + "/lib")], \
        sysconfig.get_path("purelib", "posix_prefix", {"base": prefix}))
FOUND = $(eval FOUND := $(shell $(PYTHON3) -c '$(SEARCH)' '$(PREFIX)' 2>/dev/null))$(FOUND)
PYTHONDIR ?= $(firstword $(FOUND))
# The files to install, as MODE:FILE:DESTINATION: $(call put,MODE,FILES,FOLDER). In a file with the
# mode "text", /usr/local becomes PREFIX, and names between @ what they mean.
put = $(foreach file,$2,$1:$(file):$3/$(notdir $(file)))
INSTALLED = $(call put,755,$(SERVERS:%=build/%),$(PREFIX)/sbin) \
    $(call put,644,$(if $(SERVERS),$(wildcard server/*.8)),$(PREFIX)/share/man/man8) \
    $(call put,text,$(if $(SERVERS),$(wildcard server/units/*)),$(PREFIX)/lib/systemd/system) \
    $(call put,644,dumpulse.h $(wildcard extras/*.h),$(PREFIX)/include) \
    $(call put,644,build/libdumpulse.a,$(LIBDIR)) \
    text:packages/pkgconfig/dumpulse.pc.in:$(LIBDIR)/pkgconfig/dumpulse.pc
CLIENT = 755:client.py:$(PREFIX)/bin/dumpulse \
    $(if $(PYTHONDIR),644:client.py:$(PYTHONDIR)/dumpulse/__init__.py \
        644:/dev/null:$(PYTHONDIR)/dumpulse/py.typed) \
    $(call put,644,build/client/dumpulse.1,$(PREFIX)/share/man/man1) \
    $(call put,text,$(EXAMPLE_FILES),$(EXAMPLES))
EXAMPLES = $(PREFIX)/share/doc/dumpulse/examples
EXAMPLE_FILES := examples/vehicle.ini client/examples/nagios.cfg client/examples/icinga2.conf
FILLED = -e 's|/usr/local|$(PREFIX)|; s|@prefix@|$(PREFIX)|; s|@includedir@|$${prefix}/include|' \
    -e 's|@libdir@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' \
    -e "s|@version@|$$(sed -n 's/^\#define DUMPULSE_VERSION "\([^"]*\)".*/\1/p' dumpulse.h)|"
# A list of make ends its entries at spaces: `/a b` would be the file /a, and b in this folder.
no-space:
	$(if $(word 2,$(PREFIX))$(word 2,$(LIBDIR))$(word 2,$(PYTHONDIR)), \
	    $(error PREFIX, LIBDIR and PYTHONDIR must have no spaces; DESTDIR may))
install: no-space all ##! servers, library and client, to DESTDIR and PREFIX
	@$(if $(FOUND),$(PYTHON3) -B -m tools.manual build/client,echo \
	    "the client is left out: '$(PYTHON3)' is no Python 3.9 or later" >&2)
	@umask 022; for entry in $(INSTALLED) $(if $(FOUND),$(CLIENT)); do \
	    mode=$${entry%%:*}; rest=$${entry#*:}; file=$${rest%%:*}; to="$(DESTDIR)$${rest#*:}"; \
	    mkdir -p "$${to%/*}" && rm -f "$$to" && case $$mode in \
	    text) sed $(FILLED) $$file >"$$to" && chmod 644 "$$to" ;; \
	    *) cp $$file "$$to" && chmod $$mode "$$to" ;; esac || exit 1; done
# Other files may be in the folders.
uninstall: no-space ##! remove what make install put there
	@for entry in $(INSTALLED) $(CLIENT); do rm -f "$(DESTDIR)$${entry##*:}"; done
	@for folder in $(PYTHONDIR:%=%/dumpulse/__pycache__) $(PYTHONDIR:%=%/dumpulse) \
	    $(EXAMPLES) $(dir $(EXAMPLES)); do rm -f "$(DESTDIR)$$folder"/__init__.cpython-*.pyc; \
	    rmdir "$(DESTDIR)$$folder" 2>/dev/null || :; done

# client.py, which asks agents.   SPDX-License-Identifier: MIT
TESTED_client := client/tests
CHECKED_client := $(SERVERS:%=build/%)
# tests/check.py is for server and client. Without a server, the client can only say its version.
CHECK_client := $(if $(SERVERS),$(if $(ROOM),python3 -m unittest -q tests.check), \
    python3 client.py --version)
BUILT_client = build/udpserver build/canserver

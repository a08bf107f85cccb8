# client.py, which polls agents.   SPDX-License-Identifier: MIT
BUILT_client = build/udpserver build/canserver
CHECKED_client := $(SERVERS:%=build/%)
# The check of the server is the client's, too. Where there is no server, a version can be printed.
CHECK_client := $(if $(SERVERS),$(if $(ROOM),$(CHECK_server)), \
    python3 client.py --version || failed=1;)

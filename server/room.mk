# The agents for Linux: udpserver and canserver.   SPDX-License-Identifier: MIT
CHECKED_server := $(SERVERS:%=build/%)
CHECK_server := $(if $(SERVERS),python3 -m unittest -q tests.check || failed=1;)
UNITS_server := $(addprefix build/unit-,can table udpserver hook log keys)
BUILT_server = build/udpserver build/canserver build/udpserver-calls
AGENT_C := $(filter-out server/canserver.c,$(wildcard server/*.c)) dumpulse.c $(WATCH_C) $(KEYED_C)
# With 32 bits, times would end in 2038. Valgrind lacks such a recvmmsg(): not for udpserver-i386.
WIDE := -D_TIME_BITS=64 -D_FILE_OFFSET_BITS=64
build/udpserver build/canserver: ALSO := $(WIDE) -pthread
build/udpserver: udpserver.c
build/canserver: server/canserver.c
build/udpserver build/canserver: $(AGENT_C) $(wildcard dumpulse.h extras/*.h server/*.h) build/flags
	$(LINK)
udpserver: build/udpserver ##! the agent for Linux: build/udpserver
canserver: build/canserver ##! the same for a CAN interface: build/canserver
udpserver canserver: ; @echo $<
$(call add,udpserver-i386,i686-linux-gnu-gcc -static,-O2 -funroll-loops -flto -pthread,\
    udpserver.c $(AGENT_C))
$(call add,udpserver-sanitized,clang,$(SANITIZERS) -pthread,udpserver.c $(AGENT_C))
CALLS := server/tests/calls.c udpserver.c $(AGENT_C)
WRAP_CALLS := $(call wrap,open flock pwrite fsync clock_gettime rename bind ppoll sendmmsg \
    sendmsg recvmmsg accept4)
$(call add,udpserver-calls,gcc,-pthread,$(CALLS),$(WRAP_CALLS))
$(call add,udpserver-threads,clang,-fsanitize=thread -pthread,$(CALLS),$(WRAP_CALLS))
STORM := -O2 -pthread $(call wrap,main clock_gettime getenv geteuid getrandom kill nanosleep prctl \
    pthread_create pthread_join posix_spawn posix_spawn_file_actions_init \
    posix_spawn_file_actions_addopen setenv setitimer sigaction sigprocmask syscall waitpid \
    access close fchmod flock fstat fsync ftruncate lstat open pwrite read rename stat bind \
    epoll_create1 epoll_ctl epoll_pwait getsockopt if_nametoindex ioctl ppoll recvmmsg send \
    sendmmsg sendmsg setsockopt socket dumpulse_changed dumpulse_get_key endpoints_describe \
    dumpulse_send_packet endpoints_open keys_take log_say log_write \
    overlap_left alarms_log)
$(call add,storm,gcc,$(STORM),$(wildcard tests/storm/*.c) udpserver.c $(AGENT_C))
$(call add,storm-can,gcc,$(STORM),$(wildcard tests/storm/*.c) server/canserver.c $(AGENT_C))
# Each unit test, the parts that it tests, and the functions that it replaces.
unit_of = $(call add,unit-$1,gcc,$(SANITIZERS),server/tests/unit_$1.c \
    $(patsubst %,server/%.c,$2 alarms counters options) $3,$(call wrap,$4) -lcmocka)
$(call unit_of,can,can tests/stand_ins,dumpulse.c,\
    send recvmmsg ioctl setsockopt nanosleep socket bind close if_nametoindex)
$(call unit_of,table,table watch hook limits tests/stand_ins,$(WATCH_C))
$(call unit_of,hook,hook limits tests/stand_ins,,posix_spawn kill waitpid syscall fcntl prctl)
$(call unit_of,udpserver,address limits loop sockets tests/stand_ins,,setitimer)
$(call unit_of,log,log timing,,poll)
$(call unit_of,keys,keys numbers overlap snapshot table tests/stand_ins,\
    dumpulse.c $(KEYED_C),dumpulse_get_key)
# If ASan or valgrind finds an error, the exit status of the server makes the test fail.
NEEDS_server-sanitized = build/udpserver-sanitized
PART_server-sanitized = $(RUN_SANITIZED)	## the server's tests, sanitized
RUN_SANITIZED = DUMPULSE_SERVER=$(CURDIR)/build/udpserver-sanitized $(PYTEST) -n 2 --dist loadfile \
    $(patsubst %,server/tests/test_%.py,udpserver udpserver_keyed overlap)
VALGRIND := valgrind --quiet --leak-check=full --error-exitcode=99
NEEDS_server-valgrind = build/udpserver
PART_server-valgrind = $(RUN_VALGRIND)	## some of the server's tests, in valgrind
RUN_VALGRIND = DUMPULSE_SERVER="$(VALGRIND) $(CURDIR)/build/udpserver" $(PYTEST) \
    server/tests/test_udpserver.py -m valgrind
$(call add,fuzz/server,clang $(SANITIZERS) -fsanitize=fuzzer -pthread,,\
    server/tests/fuzz_udpserver.c udpserver.c $(filter-out server/main.c,$(AGENT_C)),)
# What the fuzzer begins with: each word of hexadecimal digits is an input. Its dictionary has the
# options and the keys of files.
build/fuzz/server-words: udpserver.c $(patsubst %,server/%.c,options names keys can)
	@mkdir -p $(@D) && sed -n 's/^[^"]*"\(-*[a-z][a-z-]*\)"[,} ].*/\1/p' $^ | sort -u | \
	    sed 's/^--/\\x00--/; s/.*/"&"/' >$@
build/fuzz/server-seeds: server/tests/fuzz_seeds.hex
	@rm -rf $@ && mkdir -p $@ && python3 -c 'import sys; [open(f"$@/{n}", "wb").write( \
	    bytes.fromhex(word)) for n, word in enumerate(sys.stdin.read().split())]' <$<
NEEDS_fuzz-server = build/fuzz/server build/fuzz/server-seeds build/fuzz/server-words
PART_fuzz-server = $(FUZZ) ## libFuzzer for 10 s with a new seed: arguments and state
FUZZ = mkdir -p build/fuzz/corpus; build/fuzz/server -max_len=1600 -max_total_time=10 \
    -artifact_prefix=build/fuzz/crash- -dict=build/fuzz/server-words \
    build/fuzz/corpus build/fuzz/server-seeds 2>build/fuzz/log && \
    grep '^Done [1-9]' build/fuzz/log || { tail -40 build/fuzz/log; exit 1; }

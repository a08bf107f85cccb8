# The library's files, from packages/library.txt, and its version, from dumpulse.h.
#                                                         SPDX-License-Identifier: MIT
get_filename_component(DUMPULSE_ROOT ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
file(STRINGS ${DUMPULSE_ROOT}/packages/library.txt DUMPULSE_SOURCES REGEX "\\.c$")
file(STRINGS ${DUMPULSE_ROOT}/packages/library.txt DUMPULSE_HEADERS REGEX "\\.h$")
set(DUMPULSE_AVR extras/dumpulse_tag_avr.S) # and what only AVR needs

file(STRINGS ${DUMPULSE_ROOT}/dumpulse.h line REGEX "^#define DUMPULSE_VERSION ")
if(NOT line MATCHES "^#define DUMPULSE_VERSION \"(([0-9]+\\.[0-9]+\\.[0-9]+)(-dev)?)\"")
    message(FATAL_ERROR "dumpulse.h must define DUMPULSE_VERSION as 1.2.3 or 1.2.3-dev")
endif()
set(DUMPULSE_VERSION ${CMAKE_MATCH_1})
set(DUMPULSE_NUMBERS ${CMAKE_MATCH_2}) # CMake's own versions have no -dev

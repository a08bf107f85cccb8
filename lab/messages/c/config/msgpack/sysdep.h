/* msgpack-c's template. What CMake would fill in is defined on the command line, and the template
 * asks whether it is.   SPDX-License-Identifier: MIT */
#include "sysdep.h.in"

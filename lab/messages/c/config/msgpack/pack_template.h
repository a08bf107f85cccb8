/* As sysdep.h.   SPDX-License-Identifier: MIT */
#include "pack_template.h.in"

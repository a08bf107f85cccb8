/* What CMake makes of expat's expat_config.h.cmake by default, less the sources of random numbers:
 * the lab sets the salt, so that each run costs the same.   SPDX-License-Identifier: MIT */
#define BYTEORDER 1234
#define XML_CONTEXT_BYTES 1024
#define XML_DTD
#define XML_NS
#define XML_POOR_ENTROPY
#define HAVE_MEMMOVE
#define PACKAGE_STRING "expat 2.5.0"

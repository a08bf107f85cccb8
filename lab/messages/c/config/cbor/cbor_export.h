/* Nothing is exported from a static library.   SPDX-License-Identifier: MIT */
#define CBOR_EXPORT

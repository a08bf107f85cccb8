/* How mlkem-native is built: one parameter set (by a flag), in portable C, with our random numbers
 * and another's SHA-3.   SPDX-License-Identifier: MIT */
#ifndef MLKEM_CONFIG_H
#define MLKEM_CONFIG_H

#define MLK_CONFIG_NAMESPACE_PREFIX mlkem
#define MLK_CONFIG_FIPS202_CUSTOM_HEADER "fips202.h"
#define MLK_CONFIG_SERIAL_FIPS202_ONLY
#define MLK_CONFIG_NO_RANDOMIZED_API
#define MLK_CONFIG_INTERNAL_API_QUALIFIER static /* as it is one compilation unit */

#define FIPS202(name) mlk_##name

#endif

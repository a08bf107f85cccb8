/* How mlkem-native and mldsa-native are built: one parameter set (by a flag), in portable C, with
 * our random numbers and another's SHA-3.   SPDX-License-Identifier: MIT */
#ifndef NATIVE_CONFIG_H
#define NATIVE_CONFIG_H

#ifdef MLK_CONFIG_FILE
#define MLK_CONFIG_NAMESPACE_PREFIX mlkem
#define MLK_CONFIG_FIPS202_CUSTOM_HEADER "fips202.h"
#define MLK_CONFIG_SERIAL_FIPS202_ONLY
#define MLK_CONFIG_NO_RANDOMIZED_API
#define MLK_CONFIG_INTERNAL_API_QUALIFIER static /* as it is one compilation unit */
#define FIPS202(name) mlk_##name
#else
#define MLD_CONFIG_NAMESPACE_PREFIX mldsa
#define MLD_CONFIG_FIPS202_CUSTOM_HEADER "fips202.h"
#define MLD_CONFIG_SERIAL_FIPS202_ONLY
#define MLD_CONFIG_NO_RANDOMIZED_API
#define MLD_CONFIG_INTERNAL_API_QUALIFIER static
#define FIPS202(name) mld_##name
#endif

#endif

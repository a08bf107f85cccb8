/* How mldsa-native is built: one parameter set (by a flag), in portable C, with our random numbers
 * and another's SHA-3.   SPDX-License-Identifier: MIT */
#ifndef MLDSA_CONFIG_H
#define MLDSA_CONFIG_H

#define MLD_CONFIG_NAMESPACE_PREFIX mldsa
#define MLD_CONFIG_FIPS202_CUSTOM_HEADER "fips202.h"
#define MLD_CONFIG_SERIAL_FIPS202_ONLY
#define MLD_CONFIG_NO_RANDOMIZED_API
#define MLD_CONFIG_INTERNAL_API_QUALIFIER static /* as it is one compilation unit */

#define FIPS202(name) mld_##name

#endif

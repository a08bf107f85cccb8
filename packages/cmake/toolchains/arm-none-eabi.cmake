# For Cortex-M, with arm-none-eabi-gcc: cmake --toolchain, or -DCMAKE_TOOLCHAIN_FILE=THIS.
# -DDUMPULSE_CPU=cortex-m4 chooses another core. The board's linker script and start-up code belong
# to your project.                                        SPDX-License-Identifier: MIT
set(DUMPULSE_CPU cortex-m0plus CACHE STRING "The core, as in arm-none-eabi-gcc -mcpu=")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DUMPULSE_CPU)

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # a program needs the board's linker script
set(CMAKE_C_FLAGS_INIT "-mthumb -mcpu=${DUMPULSE_CPU} -ffunction-sections -fdata-sections")
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,--gc-sections)

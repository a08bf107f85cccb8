# For AVR, with avr-gcc: cmake --toolchain, or -DCMAKE_TOOLCHAIN_FILE=THIS.
# -DDUMPULSE_MCU=attiny85 chooses another chip.           SPDX-License-Identifier: MIT
set(DUMPULSE_MCU atmega328p CACHE STRING "The chip, as in avr-gcc -mmcu=")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DUMPULSE_MCU)

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR avr)
set(CMAKE_C_COMPILER avr-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "-mmcu=${DUMPULSE_MCU} -ffunction-sections -fdata-sections")
set(CMAKE_ASM_FLAGS_INIT "-mmcu=${DUMPULSE_MCU}")
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,--gc-sections)

# The core for the Arduino Uno, as Debian has it.   SPDX-License-Identifier: MIT
# mypy: ignore-errors
from SCons.Script import DefaultEnvironment

CORE = "/usr/share/arduino/hardware/arduino/avr"
env = DefaultEnvironment()
chip = ["-mmcu=atmega328p", "-Os"]
env.Replace(AR="avr-gcc-ar", CC="avr-gcc", CXX="avr-g++", LINK="avr-g++",
            RANLIB="avr-gcc-ranlib", PROGSUFFIX=".elf")
env.Append(
    # Without the last one, avr-gcc 5.4 cannot compile the core's WString.cpp.
    CPPDEFINES=[("F_CPU", "16000000L"), ("ARDUINO", "10819"), "ARDUINO_ARCH_AVR",
                "ARDUINO_AVR_UNO", ("DECIMAL_DIG", "__DECIMAL_DIG__")],
    CCFLAGS=[*chip, "-ffunction-sections", "-fdata-sections", "-flto"],
    CXXFLAGS=["-std=gnu++11", "-fpermissive", "-fno-exceptions", "-fno-threadsafe-statics"],
    LINKFLAGS=[*chip, "-flto", "-Wl,--gc-sections"],
    CPPPATH=[f"{CORE}/cores/arduino", f"{CORE}/variants/standard"])
env.Prepend(LIBS=[env.BuildLibrary("$BUILD_DIR/FrameworkArduino", f"{CORE}/cores/arduino")])

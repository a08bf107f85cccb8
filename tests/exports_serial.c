/* Gives the inline function of dumpulse_serial.h a name.   SPDX-License-Identifier: MIT */
#include "dumpulse_serial.h"

dumpulse_result export_take_byte(dumpulse *agent, dumpulse_line *line, uint8_t byte, void *context);

dumpulse_result export_take_byte(dumpulse *agent, dumpulse_line *line, uint8_t byte, void *context)
{
    return dumpulse_take_byte(agent, line, byte, context);
}

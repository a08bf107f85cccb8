/* A node on a CAN bus: it sends a heartbeat each second.   SPDX-License-Identifier: MIT
 *
 * It needs a board with an MCP2515, and the library autowp-mcp2515 from the Library Manager.
 * Connect CS to pin 10. SI, SO and SCK go to the SPI pins: 11, 12 and 13 on an Uno and a Nano, 51,
 * 50 and 52 on a Mega. A Leonardo has them on its ICSP header.
 *
 * The node has the identifier BASE + VARIABLE. Agents use the base 0x680 if they are not told
 * another one.
 */
#include <SPI.h>
#include <mcp2515.h>
#include <dumpulse.h>

const uint8_t CHIP_SELECT = 10;
const CAN_SPEED BIT_RATE = CAN_500KBPS;
const CAN_CLOCK CRYSTAL = MCP_16MHZ; // look at your board: many have MCP_8MHZ

const uint16_t BASE = 0x680;  // a multiple of 128; the agent and all nodes must have the same
const uint32_t PERIOD = 1000; // milliseconds; let it be less than half of what you call dead

const uint8_t VARIABLE = 3; // 0 to 63; each node has its own
const uint8_t SENDER = 76;  // who sends: 1 to 255

static MCP2515 can(CHIP_SELECT);
static uint8_t value; // means what you like; here it counts the heartbeats that could leave

// A frame that no other controller takes stays in the MCP2515, which has room for three. When it is
// full, sendMessage fails. Once the bus works again, these old heartbeats leave, the newest first.
// The next heartbeat, at most a PERIOD later, makes the value right again.
static void send_heartbeat()
{
    struct can_frame frame;
    frame.can_id = BASE + VARIABLE;
    frame.can_dlc = DUMPULSE_PACKET_SIZE;
    dumpulse_make_heartbeat(frame.data, VARIABLE, SENDER, value);
    if (can.sendMessage(&frame) == MCP2515::ERROR_OK)
        value++;
}

void setup()
{
    SPI.begin();
    can.reset();
    can.setBitrate(BIT_RATE, CRYSTAL);
    can.setNormalMode();
}

void loop()
{
    static uint32_t sent; // milliseconds

    // Your own work goes here. A heartbeat says that the loop still runs.
    if (millis() - sent >= PERIOD) {
        sent = millis();
        send_heartbeat();
    }
}

-- Shows Dumpulse's packets of version 1, over UDP and CAN, in Wireshark and tshark. Copy this file
-- into the folder of personal Lua plugins, which Help > About > Folders names. The port and the
-- first CAN identifier are in Preferences > Protocols.            SPDX-License-Identifier: MIT

set_plugin_info({version = "@version@", description = "Dumpulse"})

local PACKET_SIZE, REPORT_SIZE, VARIABLES = 8, 260, 64
local MAGIC, REQUEST = 0xf1, "AreyouOK"
-- On CAN: offsets from the base.
local IDENTIFIERS, FIRST_OF_REPORT, FRAMES, CAN_REQUEST = 128, 64, 33, 127
local FRAME_SIZE = 8

local dumpulse = Proto("dumpulse", "Dumpulse")

local kind = ProtoField.string("dumpulse.kind", "Kind")
local checksum = ProtoField.uint32("dumpulse.checksum", "Checksum", base.HEX)
local computed = ProtoField.uint32("dumpulse.checksum.right", "Right checksum", base.HEX)
local magic = ProtoField.uint8("dumpulse.magic", "Magic number", base.HEX)
local heard = ProtoField.uint8("dumpulse.heard", "Variables that are set", base.DEC)
local entry = ProtoField.none("dumpulse.entry", "Entry")
local variable = ProtoField.uint8("dumpulse.variable", "Variable", base.DEC)
local timestamp = ProtoField.uint16("dumpulse.timestamp", "Timestamp", base.DEC)
local sender = ProtoField.uint8("dumpulse.sender", "Sender", base.DEC)
local value = ProtoField.uint8("dumpulse.value", "Value", base.DEC)
local part = ProtoField.uint8("dumpulse.part", "Frame of the report", base.DEC)
dumpulse.fields = {kind, checksum, computed, magic, heard, entry, variable, timestamp, sender,
                   value, part}

local bad_checksum = ProtoExpert.new("dumpulse.checksum.bad", "The checksum is wrong",
                                     expert.group.CHECKSUM, expert.severity.ERROR)
local refused = ProtoExpert.new("dumpulse.refused", "This is no packet of version 1",
                                expert.group.PROTOCOL, expert.severity.WARN)
local gap = ProtoExpert.new("dumpulse.gap", "This frame does not follow: the report is dropped",
                            expert.group.SEQUENCE, expert.severity.WARN)
local cut = ProtoExpert.new("dumpulse.cut", "The capture has only the beginning of this packet",
                            expert.group.UNDECODED, expert.severity.NOTE)
dumpulse.experts = {bad_checksum, refused, gap, cut}

dumpulse.prefs.port = Pref.uint("UDP port", 9060, "The agent's port; 0 is none")
dumpulse.prefs.base = Pref.string("First CAN identifier", "680",
                                  "A multiple of 80, in 3 hexadecimal digits, or in 8")

-- Adler-32 of bytes from `from` to the end: at most 256 bytes, so neither sum exceeds 2^24.
local function adler32(buffer, from)
    local a, b = 1, 0
    for at = from, buffer:len() - 1 do
        a = a + buffer(at, 1):uint()
        b = b + a
    end
    return b % 65521 * 65536 + a
end

local function add_checksum(buffer, tree)
    local right = adler32(buffer, 4)
    local item = tree:add(checksum, buffer(0, 4))
    if buffer(0, 4):uint() == right then
        return ""
    end
    item:add_proto_expert_info(bad_checksum)
    tree:add(computed, right):set_generated()
    return ", wrong checksum"
end

local function heartbeat(buffer, tree)
    local wrong = add_checksum(buffer, tree)
    tree:add(magic, buffer(4, 1))
    local number = buffer(5, 1):uint()
    local item = tree:add(variable, buffer(5, 1))
    tree:add(sender, buffer(6, 1))
    tree:add(value, buffer(7, 1))
    if number >= VARIABLES then
        item:add_proto_expert_info(refused, "A variable is 0 to 63: agents refuse this")
        wrong = wrong .. ", no such variable"
    end
    return "Heartbeat", string.format("variable %d, sender %d, value %d%s", number,
                                      buffer(6, 1):uint(), buffer(7, 1):uint(), wrong)
end

local function request()
    return "Request", "are you OK?"
end

local function report(buffer, tree)
    local wrong = add_checksum(buffer, tree)
    local set = {}
    for number = 0, VARIABLES - 1 do
        if buffer(4 + 4 * number, 4):uint() ~= 0 then -- else it was never set
            set[#set + 1] = number
        end
    end
    tree:add(heard, #set):set_generated()
    for _, number in ipairs(set) do
        local bytes = buffer(4 + 4 * number, 4)
        local branch = tree:add(entry, bytes)
        branch:set_text(string.format("Variable %d: value %d, sender %d, timestamp %d", number,
                                      bytes(3, 1):uint(), bytes(2, 1):uint(), bytes(0, 2):uint()))
        branch:add(variable, bytes, number):set_generated()
        branch:add(timestamp, bytes(0, 2))
        branch:add(sender, bytes(2, 1))
        branch:add(value, bytes(3, 1))
    end
    return "Report", string.format("%d of %d variables are set", #set, VARIABLES) .. wrong
end

-- Chooses by the length, and by what tells a heartbeat from a request.
local function kind_of(buffer)
    if buffer:len() == REPORT_SIZE then
        return report
    elseif buffer:len() ~= PACKET_SIZE then
        return nil
    elseif buffer(4, 1):uint() == MAGIC then
        return heartbeat
    elseif buffer:raw(0, PACKET_SIZE) == REQUEST then
        return request
    end
    return nil
end

local function show(name, text, pinfo, tree)
    tree:add(kind, name):set_generated()
    tree:append_text(", " .. name .. ": " .. text)
    pinfo.cols.info = name .. ": " .. text
end

local function packet(buffer, pinfo, tree)
    local dissect = kind_of(buffer)
    if buffer:len() < buffer:reported_len() then
        tree:add_proto_expert_info(cut)
        show("Cut", "the capture has " .. buffer:len() .. " bytes of it", pinfo, tree)
    elseif dissect then
        local name, text = dissect(buffer, tree)
        show(name, text, pinfo, tree)
    else
        tree:add_proto_expert_info(refused)
        show("Refused", "no packet of version 1", pinfo, tree)
    end
end

-- ---- over UDP ----

function dumpulse.dissector(buffer, pinfo, tree)
    pinfo.cols.protocol = "Dumpulse"
    packet(buffer, pinfo, tree:add(dumpulse, buffer()))
    return buffer:len()
end

-- ---- over CAN ----

local identifier, extended = Field.new("can.id"), Field.new("can.flags.xtd")
local remote, fd = Field.new("can.flags.rtr"), Field.new("canfd.flags.brs")
local interface = Field.new("frame.interface_id")
-- Without a listener with a filter, Wireshark may leave out these fields when it opens a capture.
local listener = Listener.new("frame", "dumpulse")

local first, first_extended = 0x680, false -- the base, and whether identifiers have 29 bits
-- Wireshark may show a frame again and in any order, so these keep what was found when it came to
-- the frame first. That is in the order of the capture.
local unfinished, seen, finished, gaps

function dumpulse.init()
    unfinished, seen, finished, gaps = {}, {}, {}, {}
end

-- Follows the rules of SPEC.md for a reader: frame 0 begins a report, and each other frame must
-- follow the one before.
local function join(number, buffer, pinfo)
    local bus = interface() and interface().value or 0
    local before = unfinished[bus] or {}
    unfinished[bus] = nil
    if number == 0 then
        before = {next = 0, bytes = {}}
    end
    local size = number == FRAMES - 1 and REPORT_SIZE - FRAME_SIZE * number or FRAME_SIZE
    if before.next ~= number or buffer:len() ~= size then
        gaps[pinfo.number] = true
        return
    end
    before.bytes[number + 1] = buffer:bytes():tohex()
    before.next = number + 1
    if before.next < FRAMES then
        unfinished[bus] = before
    else
        finished[pinfo.number] = table.concat(before.bytes)
    end
end

local can = Proto("dumpulse.can", "Dumpulse over CAN")

function can.dissector(buffer, pinfo, tree)
    local id = identifier()
    if not id or fd() or (remote() and remote().value) or
        (extended() and extended().value or false) ~= first_extended then
        return 0
    end
    local offset = id.value - first
    local number = offset - FIRST_OF_REPORT
    if offset < 0 or number >= FRAMES and offset ~= CAN_REQUEST then
        return 0
    end
    pinfo.cols.protocol = "Dumpulse"
    local branch = tree:add(dumpulse, buffer())
    if number < 0 or number >= FRAMES then
        packet(buffer, pinfo, branch)
        return buffer:len()
    end
    branch:add(part, buffer(), number):set_generated()
    if not seen[pinfo.number] then
        seen[pinfo.number] = true
        join(number, buffer, pinfo)
    end
    if finished[pinfo.number] then
        packet(ByteArray.new(finished[pinfo.number]):tvb("Report"), pinfo, branch)
    else
        show("Part", string.format("frame %d of a report", number), pinfo, branch)
    end
    if gaps[pinfo.number] then
        branch:add_proto_expert_info(gap)
    end
    return buffer:len()
end

-- ---- where the dissectors are used ----

local udp_ports = DissectorTable.get("udp.port")
local identifiers = {
    [false] = DissectorTable.get("can.id"),
    [true] = DissectorTable.get("can.extended_id"),
}
local port, listens = 0, false

local function listen()
    if port > 0 then
        udp_ports:remove(port, dumpulse)
    end
    port = dumpulse.prefs.port <= 65535 and dumpulse.prefs.port or 0
    if port > 0 then
        udp_ports:add(port, dumpulse)
    end

    local block = string.format("%d-%d", first, first + IDENTIFIERS - 1)
    if listens then
        identifiers[first_extended]:remove(block, can)
    end
    local digits = dumpulse.prefs.base
    local chosen = digits:match("^%x+$") and tonumber(digits, 16)
    local long = #digits == 8
    listens = chosen and (#digits == 3 or long) and chosen % IDENTIFIERS == 0 and
        chosen < (long and 2 ^ 29 or 2 ^ 11)
    if listens then
        first, first_extended = chosen, long
        block = string.format("%d-%d", first, first + IDENTIFIERS - 1)
        identifiers[first_extended]:add(block, can)
    else
        report_failure("Dumpulse: '" .. digits .. "' cannot be the first CAN identifier: write a " ..
                       "multiple of 80 in 3 hexadecimal digits, or in 8")
    end
end

dumpulse.prefs_changed = listen
listen()

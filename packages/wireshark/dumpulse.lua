-- Shows Dumpulse's packets in Wireshark and tshark: those of version 1, and those of version 2,
-- with keys, over UDP and CAN. Copy this file into the folder of personal Lua plugins, which
-- Help > About > Folders names, or give it to one command: tshark -X lua_script:dumpulse.lua.
-- Filters begin with "dumpulse.". The port, the first CAN identifier and a file of keys are in
-- Preferences > Protocols.                                        SPDX-License-Identifier: MIT

set_plugin_info({version = "@version@", description = "Dumpulse"})

local PACKET_SIZE, REPORT_SIZE, KEYED_SIZE, VARIABLES = 8, 260, 264, 64
local MAGIC, REQUEST = 0xf1, "AreyouOK"
-- On CAN: offsets from the base.
local IDENTIFIERS, FIRST_OF_REPORT, FRAMES, CAN_REQUEST = 128, 64, 33, 127
local FRAME_SIZE, CAN_BEACON = 8, 97
-- Of version 2: the label of readers. Byte 4 of a beacon is less than BEACON_END.
local READERS, BEACON_END = 64, 0x20

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
local tag = ProtoField.bytes("dumpulse.tag", "Tag")
local status = ProtoField.string("dumpulse.tag.status", "The tag is")
local label = ProtoField.uint8("dumpulse.label", "Label of its key", base.DEC)
local epoch = ProtoField.uint32("dumpulse.epoch", "Epoch", base.DEC)
local count = ProtoField.uint8("dumpulse.count", "Count", base.DEC)
local nonce = ProtoField.uint16("dumpulse.nonce", "Nonce", base.HEX)
dumpulse.fields = {kind, checksum, computed, magic, heard, entry, variable, timestamp, sender,
                   value, part, tag, status, label, epoch, count, nonce}

local bad_checksum = ProtoExpert.new("dumpulse.checksum.bad", "The checksum is wrong",
                                     expert.group.CHECKSUM, expert.severity.ERROR)
local refused = ProtoExpert.new("dumpulse.refused", "This is no packet of Dumpulse",
                                expert.group.PROTOCOL, expert.severity.WARN)
local gap = ProtoExpert.new("dumpulse.gap", "This frame does not follow: the report is dropped",
                            expert.group.SEQUENCE, expert.severity.WARN)
local cut = ProtoExpert.new("dumpulse.cut", "The capture has only the beginning of this packet",
                            expert.group.UNDECODED, expert.severity.NOTE)
local bad_tag = ProtoExpert.new("dumpulse.tag.bad", "The tag is wrong, or of another key or epoch",
                                expert.group.SECURITY, expert.severity.ERROR)
dumpulse.experts = {bad_checksum, refused, gap, cut, bad_tag}

dumpulse.prefs.port = Pref.uint("UDP port", 9060, "The agent's port; 0 is none")
dumpulse.prefs.base = Pref.string("First CAN identifier", "680",
                                  "A multiple of 80, in 3 hexadecimal digits, or in 8")
dumpulse.prefs.keys = Pref.string("Key file", "", "A file of `dumpulse key`: checks tags")

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

-- Adds the entries that were ever set, of which the first one is at `first`.
local function add_entries(buffer, first, tree)
    local set = {}
    for number = 0, VARIABLES - 1 do
        if buffer(first + 4 * number, 4):uint() ~= 0 then -- else it was never set
            set[#set + 1] = number
        end
    end
    tree:add(heard, #set):set_generated()
    for _, number in ipairs(set) do
        local bytes = buffer(first + 4 * number, 4)
        local branch = tree:add(entry, bytes)
        branch:set_text(string.format("Variable %d: value %d, sender %d, timestamp %d", number,
                                      bytes(3, 1):uint(), bytes(2, 1):uint(), bytes(0, 2):uint()))
        branch:add(variable, bytes, number):set_generated()
        branch:add(timestamp, bytes(0, 2))
        branch:add(sender, bytes(2, 1))
        branch:add(value, bytes(3, 1))
    end
    return string.format("%d of %d variables are set", #set, VARIABLES)
end

local function report(buffer, tree)
    local wrong = add_checksum(buffer, tree)
    return "Report", add_entries(buffer, 4, tree) .. wrong
end

-- ---- version 2: spec/keyed.md has it ----

-- Keys, by label, as four words, and the generations of those that are not the first. And what a
-- tag depends on, if its own tag was right: the epoch of each label's last beacon, the latest of
-- them, and the last request. `verdicts` keeps what was found when Wireshark came to a frame first.
local master, known, generations, heard, latest, asked, verdicts

local function permute(w)
    local a, b, c, d = w[1], w[2], w[3], w[4]
    for _ = 1, 12 do
        a = bit.tobit(a + b)
        b = bit.bxor(bit.rol(b, 5), a)
        a = bit.rol(a, 16)
        c = bit.tobit(c + d)
        d = bit.bxor(bit.rol(d, 8), c)
        a = bit.tobit(a + d)
        d = bit.bxor(bit.rol(d, 13), a)
        c = bit.tobit(c + b)
        b = bit.bxor(bit.rol(b, 7), c)
        c = bit.rol(c, 16)
    end
    return {a, b, c, d}
end

-- Chaskey-12 over little-endian words, of which there are 4, 8, 12 …
local function chaskey(key, words)
    local mask, state, carry = {}, {key[1], key[2], key[3], key[4]}, 0
    for i = 1, 4 do
        mask[i] = bit.bor(bit.lshift(key[i], 1), carry)
        carry = bit.rshift(key[i], 31)
    end
    mask[1] = bit.bxor(mask[1], carry * 0x87)
    for at = 0, #words - 1, 4 do
        for i = 1, 4 do
            local last = at + 4 == #words and mask[i] or 0
            state[i] = bit.bxor(state[i], bit.tobit(words[at + i]), last)
        end
        state = permute(state)
    end
    for i = 1, 4 do
        state[i] = bit.bxor(state[i], mask[i])
    end
    return state
end

local function key_of(number)
    local word = number * 0x01010101
    local last = bit.bor(bit.band(word, 0xffffff), bit.lshift(generations[number] or 0, 24))
    known[number] = known[number] or master and chaskey(master, {word, word, word, last})
    return known[number]
end

-- What a tag is made of besides bytes 4 to 7.
local function block(number, of_what, four)
    return {number * 0x01010101, number * 0x01010101, of_what, four}
end

-- Is the tag right, with one of these numbers? Returns that one.
local function right_number(buffer, key, number, candidates)
    for _, each in pairs(candidates) do
        local made = chaskey(key, block(number, each, buffer(4, 4):le_uint()))
        if made[1] == bit.tobit(buffer(0, 4):le_uint()) then
            return each
        end
    end
end

local function right_report(buffer, key)
    local words = {}
    for at = 8, KEYED_SIZE - 4, 4 do
        words[#words + 1] = buffer(at, 4):le_uint()
    end
    for _, word in ipairs(block(READERS, asked.epoch, asked.four)) do
        words[#words + 1] = word
    end
    local made = chaskey(key, words)
    return made[1] == bit.tobit(buffer(0, 4):le_uint()) and
        made[2] == bit.tobit(buffer(4, 4):le_uint())
end

-- Of a beacon, which does not say its label: finds that by the tag.
local function judge_beacon(buffer)
    local each = buffer(4, 4):uint()
    for number = 0, READERS do
        local key = key_of(number)
        if key and right_number(buffer, key, number, {each}) then
            heard[number] = each
            latest = math.max(latest or 0, each)
            return "right", number
        end
    end
    return master and "wrong" or
        next(known) and "not checked: it may be for another label" or "not checked"
end

local function judge(buffer, number)
    local key = key_of(number)
    if not key then
        return "not checked", number
    elseif buffer:len() == KEYED_SIZE then
        return not asked and "not checked: no request came before" or
            right_report(buffer, key) and "right" or "wrong", number
    end
    local candidates = {heard[number]}
    if latest and heard[number] ~= latest then -- it is in the latest one, or in the last
        candidates = {latest, latest - 1}
    end
    if not next(candidates) then
        return "not checked: no beacon came before", number
    end
    local found = right_number(buffer, key, number, candidates)
    if found and number == READERS then
        asked = {epoch = found, four = buffer(4, 4):le_uint()}
    end
    return found and "right" or "wrong", number
end

-- Adds the tag, of `size` bytes, and what is known of it.
local function add_tag(buffer, tree, pinfo, judged, number, size)
    local found = verdicts[pinfo.number] or {judged(buffer, number)}
    verdicts[pinfo.number] = found
    local item = tree:add(tag, buffer(0, size))
    tree:add(status, found[1]):set_generated()
    if found[2] then
        tree:add(label, found[2]):set_generated()
    end
    if found[1] == "wrong" then
        item:add_proto_expert_info(bad_tag)
    end
    return ", tag " .. found[1]
end

local function keyed_report(buffer, tree, pinfo)
    local told = add_tag(buffer, tree, pinfo, judge, READERS, 8)
    return "Keyed report", add_entries(buffer, 8, tree) .. told
end

local function beacon(buffer, tree, pinfo)
    local number = buffer(4, 4):uint()
    tree:add(epoch, buffer(4, 4))
    return "Beacon", string.format("epoch %d", number) ..
        add_tag(buffer, tree, pinfo, judge_beacon, nil, 4)
end

-- Anybody may ask for the beacon of a label.
local function question(buffer, tree)
    tree:add(label, buffer(4, 1), buffer(4, 1):uint() - 0x80)
    return "Question", string.format("which epoch has label %d?", buffer(4, 1):uint() - 0x80)
end

local function keyed_heartbeat(buffer, tree, pinfo)
    local number = buffer(4, 1):uint() - 0x80
    tree:add(variable, buffer(4, 1), number)
    tree:add(count, buffer(5, 1))
    tree:add(sender, buffer(6, 1))
    tree:add(value, buffer(7, 1))
    return "Keyed heartbeat", string.format(
        "variable %d, sender %d, value %d, count %d", number, buffer(6, 1):uint(),
        buffer(7, 1):uint(), buffer(5, 1):uint()) .. add_tag(buffer, tree, pinfo, judge, number, 4)
end

local function keyed_request(buffer, tree, pinfo)
    tree:add(count, buffer(5, 1))
    tree:add(nonce, buffer(6, 2))
    return "Keyed request", string.format("count %d", buffer(5, 1):uint()) ..
        add_tag(buffer, tree, pinfo, judge, READERS, 4)
end

-- Of 8 bytes that are no packet of version 1.
local function keyed_kind_of(buffer)
    local first = buffer(4, 1):uint()
    if first < BEACON_END then
        return buffer(4, 4):uint() > 0 and beacon or nil
    elseif first < 0x80 or first > 0x80 + READERS then
        return nil
    elseif buffer(5, 1):uint() == 0 then
        return question
    end
    return first < 0xc0 and keyed_heartbeat or keyed_request
end

-- Chooses by the length, and by what tells a heartbeat from a request.
local function kind_of(buffer)
    if buffer:len() == REPORT_SIZE then
        return report
    elseif buffer:len() == KEYED_SIZE then
        return keyed_report
    elseif buffer:len() ~= PACKET_SIZE then
        return nil
    elseif buffer(4, 1):uint() == MAGIC then
        return heartbeat
    elseif buffer:raw(0, PACKET_SIZE) == REQUEST then
        return request
    end
    return keyed_kind_of(buffer)
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
        local name, text = dissect(buffer, tree, pinfo)
        show(name, text, pinfo, tree)
    else
        tree:add_proto_expert_info(refused)
        show("Refused", "no packet of Dumpulse", pinfo, tree)
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
    heard, latest, asked, verdicts = {}, nil, nil, {}
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
    local short = number == FRAMES - 1 and REPORT_SIZE - FRAME_SIZE * number -- in version 1
    if before.next ~= number or (buffer:len() ~= FRAME_SIZE and buffer:len() ~= short) then
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
    if offset < 0 or offset >= IDENTIFIERS then
        return 0
    elseif number >= FRAMES and offset ~= CAN_REQUEST then -- of version 2 alone
        local found = buffer:len() == PACKET_SIZE and kind_of(buffer)
        local of_reader = found and buffer(4, 1):uint() == 0x80 + READERS
        if (offset == CAN_BEACON) ~= (found == beacon) or
            offset ~= CAN_BEACON and not of_reader then
            return 0
        end
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

local function hex_words(digits)
    local words = {}
    for at = 1, 32, 8 do
        local a, b, c, d = digits:match("(%x%x)(%x%x)(%x%x)(%x%x)", at)
        words[#words + 1] = bit.tobit(tonumber(d .. c .. b .. a, 16))
    end
    return words
end

-- A master key is 32 digits, and lines after it are like "7 2": variable 7 has its third key. Else
-- a line is a label and its key: a variable, or "readers".
local function read_keys()
    master, known, generations = nil, {}, {}
    if dumpulse.prefs.keys == "" then
        return
    end
    local file, why = io.open(dumpulse.prefs.keys)
    for line in file and file:lines() or function() end do
        local name, digits = line:match("^(%w+) (%x+)%s*$")
        local number = name == "readers" and READERS or tonumber(name)
        if #line:match("^%x*") == 32 and not name then
            master = hex_words(line)
        elseif number and #digits == 32 then
            known[number] = hex_words(digits)
        elseif number then
            generations[number] = tonumber(digits)
        end
    end
    if not master and not next(known) then
        report_failure("Dumpulse: " .. (why or dumpulse.prefs.keys .. " has no key"))
    end
end

local function settle()
    listen()
    read_keys()
end

dumpulse.prefs_changed = settle
settle()

// SPDX-License-Identifier: MIT
//! Does the crate do what the C library does? With 10^6 random tables, each with a random packet.
//! It is for the tests and not in the crate: test_rust.py compiles it with dumpulse.c, whose inline
//! functions it lets other files call.
use dumpulse::{keyed, Agent, Heartbeat, Outcome, Report, Variable, REQUEST};
use std::ffi::c_void;

/// dumpulse_entry.
#[repr(C)]
struct Entry {
    timestamp: u16,
    sender: u8,
    value: u8,
}

extern "C" {
    fn dumpulse_process_packet(
        agent: *mut [u8; 260],
        packet: *const u8,
        length: usize,
        now: *mut c_void,
    ) -> u8;
    fn dumpulse_make_heartbeat(packet: *mut [u8; 8], variable: u8, sender: u8, value: u8);
    fn dumpulse_check_report(report: *const u8, length: usize) -> bool;
    fn dumpulse_read_entry(report: *const [u8; 260], variable: u8) -> Entry;
}

const NOW: u16 = 0x1234;
static mut SENT: usize = 0; // bytes, by the library in C

#[no_mangle]
extern "C" fn dumpulse_get_timestamp() -> u16 {
    NOW
}

#[no_mangle]
extern "C" fn dumpulse_send_packet(_: *mut c_void, _: *const u8, length: usize) {
    // SAFETY: there is one thread.
    unsafe { SENT += length };
}

/// Xorshift, of Marsaglia: the same numbers each time.
struct Random(u64);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u8
    }
}

/// A packet of any kind: good, nearly good, or any bytes.
fn packet(random: &mut Random) -> Vec<u8> {
    let (variable, sender, value) = (random.byte() % 70, random.byte(), random.byte());
    let mut heartbeat = [0; 8];
    // SAFETY: it writes 8 bytes.
    unsafe { dumpulse_make_heartbeat(&mut heartbeat, variable, sender, value) };
    assert_eq!(Heartbeat::new(variable, sender, value), Heartbeat::decode(&heartbeat));
    match random.byte() % 8 {
        0 => (0..random.byte() % 20).map(|_| random.byte()).collect(),
        1 => REQUEST.to_vec(),
        2 => {
            let mut damaged = if value % 4 == 0 { REQUEST } else { heartbeat };
            damaged[usize::from(sender % 8)] ^= random.byte();
            damaged.to_vec()
        }
        _ => heartbeat.to_vec(),
    }
}

fn step(random: &mut Random, table: &mut [u8; 260]) -> u8 {
    match random.byte() {
        0 => table.fill(255), // the largest sums
        1 => table.fill(0),
        _ => table.iter_mut().for_each(|byte| *byte = random.byte()),
    }
    let (packet, mut agent) = (packet(random), Agent::from_bytes(*table));
    // SAFETY: the table and the packet are borrowed for the call.
    let (result, sent) = unsafe {
        SENT = 0;
        let none = std::ptr::null_mut();
        (dumpulse_process_packet(table, packet.as_ptr(), packet.len(), none), SENT)
    };
    let ours = match agent.process(&packet, || NOW) {
        Outcome::Refused => (0, 0),
        Outcome::Heartbeat(heartbeat) => {
            assert_eq!(packet, heartbeat.encode());
            (1, 0)
        }
        Outcome::Report(report) => (2, report.len()),
    };
    assert_eq!((ours, agent.as_bytes()), ((result, sent), &*table));
    let variable = random.byte() % 64;
    // SAFETY: it reads inside of the table.
    let theirs = unsafe { dumpulse_read_entry(table, variable) };
    let ours = Variable::new(variable).and_then(|each| agent.entry(each));
    let ours = ours.map_or((0, 0, 0), |entry| (entry.timestamp, entry.sender, entry.value));
    assert_eq!(ours, (theirs.timestamp, theirs.sender, theirs.value));

    table[usize::from(random.byte())] ^= random.byte() % 2;
    // SAFETY: it reads the bytes that there are.
    let right = unsafe { dumpulse_check_report(table.as_ptr(), table.len()) };
    assert_eq!(Report::parse(table).is_ok(), right);
    result
}

// ---- Version 2 ---------------------------------------------------------------------------------

/// dumpulse_node.
#[repr(C)]
#[derive(Default)]
struct Node {
    epoch: u32,
    left: u8,
    twice: bool,
}

/// dumpulse_reader.
#[repr(C)]
#[derive(Default)]
struct Reader {
    heard: Node,
    epoch: u32,
    asked: [u8; 8],
}

extern "C" {
    fn dumpulse_make_(packet: *mut [u8; 8], label: u8, number: u32);
    fn dumpulse_report_tag_(request: *const [u8; 8], number: u32, report: *mut [u32; 66]);
    fn dumpulse_ask(packet: *mut [u8; 8], label: u8);
    fn dumpulse_hear(node: *mut Node, label: u8, packet: *const u8, length: usize) -> bool;
    fn dumpulse_keyed_heartbeat(
        node: *mut Node,
        packet: *mut [u8; 8],
        variable: u8,
        sender: u8,
        value: u8,
    ) -> bool;
    fn dumpulse_sender_begin(node: *mut Node, variable: u8) -> bool;
    fn dumpulse_sender_announce(node: *const Node, packet: *mut [u8; 8], variable: u8) -> bool;
    fn dumpulse_keyed_request(
        reader: *mut Reader,
        packet: *mut [u8; 8],
        nonce: *const [u8; 2],
    ) -> bool;
    fn dumpulse_keyed_check(reader: *mut Reader, report: *mut [u32; 66], length: usize) -> bool;
}

static mut KEY: [u8; 16] = [0; 16];
static mut STORED: u32 = 0;

// SAFETY of these: there is one thread, and C hands in room for a key.
#[no_mangle]
unsafe extern "C" fn dumpulse_get_key(key: *mut [u8; 16], _: u8) {
    *key = KEY;
}

#[no_mangle]
unsafe extern "C" fn dumpulse_load(_: u8) -> u32 {
    STORED
}

#[no_mangle]
unsafe extern "C" fn dumpulse_store(_: u8, number: u32) -> bool {
    STORED = number;
    true
}

fn made(call: impl FnOnce(*mut [u8; 8]) -> bool) -> Option<[u8; 8]> {
    let mut packet = [0; 8];
    call(&mut packet).then_some(packet)
}

/// A beacon of one of the epochs around the last one, which may be damaged, or cut.
fn beacon(random: &mut Random, label: u8, epoch: u32) -> Vec<u8> {
    let near = u32::from(random.byte() % 3);
    let flags = [0, 0, 0x2000_0000, 0x4000_0000][usize::from(random.byte() % 4)];
    let epoch = (epoch + near).saturating_sub(1) & 0x1fff_ffff | flags;
    let mut packet = [0; 8];
    packet[4..].copy_from_slice(&epoch.to_be_bytes());
    // SAFETY: it writes 4 bytes.
    unsafe { dumpulse_make_(&mut packet, label, epoch & 0x1fff_ffff) };
    if random.byte() % 4 == 0 {
        packet[usize::from(random.byte() % 8)] ^= 1 << (random.byte() % 8);
    }
    packet[..8 - usize::from(random.byte() == 0)].to_vec()
}

/// A node, a node that only sends, and a reader, with a random key: they do what those in C do.
/// Returns how often they did what they were asked for.
fn keyed_step(random: &mut Random) -> [u32; 4] {
    let (label, mut key) = (random.byte() % 64, [0; 16]);
    key.iter_mut().for_each(|byte| *byte = random.byte());
    let variable = Variable::new(label).unwrap();
    let epoch = match random.byte() % 4 {
        0 => 0x1fff_ffff,
        1 => 1,
        _ => u32::from_be_bytes([random.byte() % 32, random.byte(), random.byte(), random.byte()]),
    };
    let (mut ours, mut theirs) = (keyed::Node::new(variable, key), Node::default());
    let (mut reads, mut reader) = (keyed::Reader::new(key), Reader::default());
    let mut counts = [0; 4];
    // SAFETY: all that is handed to C is as large as it says, and outlives the call.
    unsafe {
        KEY = key;
        STORED = [0x7f_ffff, 0x80_0000, 0xff_fffe, 0xff_ffff, epoch & 0xff_ffff]
            [usize::from(random.byte() % 5)];
        let (next, mut own) = (keyed::Sender::next_number(STORED), Node::default());
        let begun = dumpulse_sender_begin(&mut own, label);
        assert_eq!(next, begun.then_some(STORED));
        if let Some(number) = next {
            let mut node = keyed::Sender::new(variable, key, number);
            let there = made(|to| dumpulse_sender_announce(&own, to, label));
            assert_eq!(Some(node.announce()), there);
            for _ in 0..=random.byte() {
                let there = made(|to| dumpulse_keyed_heartbeat(&mut own, to, label, 1, 2));
                assert_eq!(node.heartbeat(1, 2), there);
                counts[0] += u32::from(there.is_some());
            }
        }
        for _ in 0..random.byte() % 16 {
            let packet = beacon(random, label, epoch);
            let heard = dumpulse_hear(&mut theirs, label, packet.as_ptr(), packet.len());
            assert_eq!(ours.hear(&packet), heard);
            assert_eq!(ours.twice(), theirs.twice);
            counts[1] += u32::from(heard);
            let (sender, value) = (random.byte(), random.byte());
            assert_eq!(
                ours.heartbeat(sender, value),
                made(|to| dumpulse_keyed_heartbeat(&mut theirs, to, label, sender, value))
            );

            let packet = beacon(random, 64, epoch);
            let heard = dumpulse_hear(&mut reader.heard, 64, packet.as_ptr(), packet.len());
            assert_eq!(reads.hear(&packet), heard);
            assert_eq!(reads.epoch(), reader.heard.epoch);
            if random.byte() % 2 == 0 {
                let nonce = [random.byte(), random.byte()];
                let there = made(|to| dumpulse_keyed_request(&mut reader, to, &nonce));
                assert_eq!(reads.request(nonce), there);
            }
            let mut report = [0u32; 66];
            report[2..].fill(u32::from(sender) << 16 | u32::from(value));
            dumpulse_report_tag_(&reader.asked, reader.heard.epoch, &mut report);
            if random.byte() % 4 == 0 {
                report[usize::from(random.byte() % 66)] ^= 1 << (random.byte() % 32);
            }
            let bytes: Vec<u8> = report.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let length = bytes.len() - usize::from(random.byte() % 16 == 0);
            let entry = reads.check(&bytes[..length]).map(|report| report.entry(variable));
            assert_eq!(entry.is_some(), dumpulse_keyed_check(&mut reader, &mut report, length));
            if let Some(entry) = entry {
                let there = dumpulse_read_entry(bytes[4..].as_ptr().cast(), label);
                let ours = entry.map_or((0, 0, 0), |e| (e.timestamp, e.sender, e.value));
                assert_eq!(ours, (there.timestamp, there.sender, there.value));
                counts[2] += 1;
            }
        }
        let (mut asks, mut requests) = ([0; 8], [0; 8]);
        dumpulse_ask(&mut asks, label);
        dumpulse_ask(&mut requests, 64);
        assert_eq!((ours.question(), reads.question()), (asks, requests));
    }
    counts[3] += 1;
    counts
}

fn main() {
    let (mut random, mut counts) = (Random(0x2545_f491_4f6c_dd1d), [0u32; 3]);
    let mut table = [0; 260];
    for _ in 0..1_000_000 {
        counts[usize::from(step(&mut random, &mut table))] += 1;
    }
    println!("refused {}, heartbeats {}, reports {}", counts[0], counts[1], counts[2]);
    let mut counts = [0; 4];
    for _ in 0..20_000 {
        for (sum, more) in counts.iter_mut().zip(keyed_step(&mut random)) {
            *sum += more;
        }
    }
    println!("{counts:?}: heartbeats of nodes that only send, beacons, reports; keys");
}

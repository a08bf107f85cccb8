// SPDX-License-Identifier: MIT
//! Does the crate do what the C library does? With 10^6 random tables, each with a random packet.
//! It is for the tests and not in the crate: test_rust.py compiles it with dumpulse.c, whose inline
//! functions it lets other files call.
use dumpulse::{Agent, Heartbeat, Outcome, Report, Variable, REQUEST};
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

fn main() {
    let (mut random, mut counts) = (Random(0x2545_f491_4f6c_dd1d), [0u32; 3]);
    let mut table = [0; 260];
    for _ in 0..1_000_000 {
        counts[usize::from(step(&mut random, &mut table))] += 1;
    }
    println!("refused {}, heartbeats {}, reports {}", counts[0], counts[1], counts[2]);
}

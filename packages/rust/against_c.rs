// SPDX-License-Identifier: MIT
//! Does the crate do what the C library does? With 10^6 random tables, each with a random packet.
//! It is for the tests and not in the crate: test_rust.py compiles it with dumpulse.c, whose inline
//! functions it lets other files call.
use dumpulse::{Agent, Heartbeat, Outcome, Report, Variable, REQUEST};
use std::cell::Cell;
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
        context: *mut c_void,
    ) -> u8;
    fn dumpulse_make_heartbeat(packet: *mut [u8; 8], variable: u8, sender: u8, value: u8);
    fn dumpulse_check_report(report: *const u8, length: usize) -> bool;
    fn dumpulse_read_entry(report: *const [u8; 260], variable: u8) -> Entry;
}

thread_local! {
    static NOW: Cell<u16> = Cell::new(0);
    static CALLS: Cell<(u32, u32)> = Cell::new((0, 0)); // of the clock, and of the send hook
}

#[no_mangle]
extern "C" fn dumpulse_get_timestamp() -> u16 {
    CALLS.with(|calls| calls.set((calls.get().0 + 1, calls.get().1)));
    NOW.with(Cell::get)
}

#[no_mangle]
extern "C" fn dumpulse_send_packet(_: *mut c_void, _: *const u8, length: usize) {
    assert_eq!(length, 260);
    CALLS.with(|calls| calls.set((calls.get().0, calls.get().1 + 1)));
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
    match Heartbeat::new(variable, sender, value) {
        Some(made) => assert_eq!(made.encode(), heartbeat),
        None => assert!(variable > 63 && Heartbeat::decode(&heartbeat).is_none()),
    }
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

fn read(table: &[u8; 260], variable: u8) {
    // SAFETY: it reads inside of the 260 bytes, for every variable.
    let theirs = unsafe { dumpulse_read_entry(table, variable) };
    let ours = Variable::new(variable).and_then(|each| Agent::from_bytes(*table).entry(each));
    let ours = ours.map_or((0, 0, 0), |entry| (entry.timestamp, entry.sender, entry.value));
    assert_eq!(ours, (theirs.timestamp, theirs.sender, theirs.value));
}

fn check(report: &[u8]) -> bool {
    // SAFETY: it reads the bytes that there are.
    let theirs = unsafe { dumpulse_check_report(report.as_ptr(), report.len()) };
    assert_eq!(Report::parse(report).is_ok(), theirs);
    theirs
}

fn step(random: &mut Random, table: &mut [u8; 260]) -> u8 {
    match random.byte() {
        0 => table.fill(255), // the largest sums
        1 => table.fill(0),
        _ => table.iter_mut().for_each(|byte| *byte = random.byte()),
    }
    let (packet, now) = (packet(random), u16::from_be_bytes([random.byte(), random.byte()]));
    let mut agent = Agent::from_bytes(*table);
    NOW.with(|each| each.set(now));
    CALLS.with(|calls| calls.set((0, 0)));
    // SAFETY: the table and the packet are borrowed for the call.
    let result = unsafe {
        dumpulse_process_packet(table, packet.as_ptr(), packet.len(), std::ptr::null_mut())
    };
    let mut times = 0;
    let clock = || {
        times += 1;
        now
    };
    let (ours, sends) = match agent.process(&packet, clock) {
        Outcome::Refused => (0, 0),
        Outcome::Heartbeat(heartbeat) => {
            assert_eq!(packet, heartbeat.encode());
            (1, 0)
        }
        Outcome::Report(report) => {
            assert_eq!(report, table);
            assert!(check(report));
            (2, 1)
        }
    };
    assert_eq!((ours, (times, sends)), (result, CALLS.with(Cell::get)));
    assert_eq!(agent.as_bytes(), table);
    read(table, random.byte());
    table[usize::from(random.byte())] ^= random.byte();
    check(table);
    check(&packet);
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

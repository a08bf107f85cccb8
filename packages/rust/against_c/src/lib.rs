// SPDX-License-Identifier: MIT
//! The C library as safe functions, for the tests. Its own functions keep their names here, beside
//! those of the crate.
use std::sync::Mutex;

extern "C" {
    fn c_process(agent: *mut [u8; 260], packet: *const u8, length: usize, when: u16) -> u32;
    fn c_make_heartbeat(packet: *mut [u8; 8], variable: u8, sender: u8, value: u8);
    fn c_check_report(report: *const u8, length: usize) -> u8;
    fn c_read_entry(report: *const [u8; 260], variable: u8) -> u32;
}

static HOOKS: Mutex<()> = Mutex::new(());

/// Returns the result, and how often the clock and the send hook were called.
pub fn process(agent: &mut [u8; 260], packet: &[u8], when: u16) -> (u8, u8, u8) {
    let _one = HOOKS.lock().unwrap();
    // SAFETY: the table and the packet are borrowed for the call, and the hooks' data is locked.
    let found = unsafe { c_process(agent, packet.as_ptr(), packet.len(), when) };
    let [_, result, times, sends] = found.to_be_bytes();
    (result, times, sends)
}

pub fn make_heartbeat(variable: u8, sender: u8, value: u8) -> [u8; 8] {
    let mut packet = [0; 8];
    // SAFETY: 8 bytes are written, which is the whole packet.
    unsafe { c_make_heartbeat(&mut packet, variable, sender, value) };
    packet
}

pub fn check_report(report: &[u8]) -> bool {
    // SAFETY: the function reads `length` bytes at most.
    unsafe { c_check_report(report.as_ptr(), report.len()) != 0 }
}

pub fn read_entry(report: &[u8; 260], variable: u8) -> [u8; 4] {
    // SAFETY: the function reads inside of the 260 bytes, for every variable.
    unsafe { c_read_entry(report, variable) }.to_be_bytes()
}

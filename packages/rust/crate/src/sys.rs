// SPDX-License-Identifier: MIT
//! The C library. This is the only file with unsafe code, and it has one call.

use crate::REPORT_SIZE;
use core::ffi::c_void;

pub const HEARTBEAT: u8 = 1;
pub const REPORT: u8 = 2;

extern "C" {
    /// `dumpulse_process_packet` of dumpulse.h; build.rs gives it this name.
    fn dumpulse_rust_process_packet(
        agent: *mut [u8; REPORT_SIZE],
        packet: *const u8,
        length: usize,
        context: *mut c_void,
    ) -> u8;
}

pub fn process_packet(table: &mut [u8; REPORT_SIZE], packet: &[u8]) -> u8 {
    // SAFETY: dumpulse.h says what it trusts.
    // - `agent` points to a whole dumpulse, which is 260 bytes and nothing else (c/hooks.c checks
    //   this). All values of these bytes are safe. As it is borrowed for the call, nobody else
    //   reads or writes it, and the packet does not lie inside of it.
    // - `packet` points to `length` bytes. They are only read, whatever they are, and only if
    //   `length` is 8.
    // - `context` is only passed to the send hook, which does not use it. The hooks do nothing.
    // - The library keeps no pointer after it returns, and has no static data, so any number of
    //   threads and interrupts may be here, each with another agent.
    unsafe {
        dumpulse_rust_process_packet(table, packet.as_ptr(), packet.len(), core::ptr::null_mut())
    }
}

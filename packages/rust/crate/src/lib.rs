// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod agent;
mod packet;

pub use agent::{Agent, Outcome};
pub use packet::{BadReport, Entry, Heartbeat, Report, Variable};

/// The number of variables of an agent.
pub const VARIABLES: usize = 64;
/// The bytes of a heartbeat, and of a request.
pub const PACKET_SIZE: usize = 8;
/// The bytes of a report: 4 of checksum, and 64 entries of 4.
pub const REPORT_SIZE: usize = 260;
/// The packet that asks an agent for its report.
pub const REQUEST: [u8; PACKET_SIZE] = *b"AreyouOK";

/// Adler-32 of at most 256 bytes: the two sums need no reduction before the end.
///
/// a <= 1 + 256 * 255 = 65281, which is below 65521.
/// b <= 256 + 256 * 257 / 2 * 255 = 8388736, which fits into 32 bits.
const fn checksum(bytes: &[u8]) -> u32 {
    let mut a = 1;
    let mut b = 0;
    let mut at = 0;
    while at < bytes.len() {
        a += bytes[at] as u32;
        b += a;
        at += 1;
    }
    b % 65521 * 65536 + a
}

// SPDX-License-Identifier: MIT
//! The transport for CAN: classic frames, with identifiers of 11 or 29 bits.
//!
//! Dumpulse uses a block of 128 identifiers. The first one is the base, a multiple of 128. This
//! module works with any driver: it deals in offsets from the base and in bytes.
//!
//! Ignore remote frames, CAN FD frames, and frames whose identifier has the other length.

use crate::{BadReport, Report, Variable, REPORT_SIZE};

/// The base, unless another one is configured. It is for identifiers of 11 bits.
pub const DEFAULT_BASE: u32 = 0x680;
/// The offset of a request.
pub const REQUEST_OFFSET: u8 = 127;
/// The frames of a report.
pub const REPORT_FRAMES: u8 = 33;

const IDENTIFIERS: u32 = 128;
const FIRST_OF_REPORT: u8 = 64;
const FRAME_SIZE: usize = 8;

/// The offset that a node should send with.
pub const fn heartbeat_offset(variable: Variable) -> u8 {
    variable.get()
}

/// The offset of an identifier, or `None` if it is not in the block of the base.
///
/// ```
/// use dumpulse::can::{offset, DEFAULT_BASE, REQUEST_OFFSET};
///
/// assert_eq!(offset(0x6ff, DEFAULT_BASE), Some(REQUEST_OFFSET));
/// assert_eq!(offset(0x700, DEFAULT_BASE), None);
/// ```
pub const fn offset(identifier: u32, base: u32) -> Option<u8> {
    match identifier.checked_sub(base) {
        Some(difference) if difference < IDENTIFIERS => Some(difference as u8),
        _ => None,
    }
}

/// Should an agent process a frame with this offset? All other frames are to be ignored.
pub const fn is_for_agent(offset: u8) -> bool {
    offset < FIRST_OF_REPORT || offset == REQUEST_OFFSET
}

/// The frames of a report in order: the offset of each, and its bytes. The agent must send all of
/// them before it begins another report.
pub fn frames(report: &[u8; REPORT_SIZE]) -> impl Iterator<Item = (u8, &[u8])> {
    (FIRST_OF_REPORT..).zip(report.chunks(FRAME_SIZE))
}

/// Puts the frames of a report together, for a reader.
#[derive(Debug, Clone)]
pub struct Joiner {
    table: [u8; REPORT_SIZE],
    next: u8, // the frame that must come now, or 0 if there is none
}

impl Default for Joiner {
    fn default() -> Self {
        Self::new()
    }
}

impl Joiner {
    /// It waits for the first frame of a report.
    pub const fn new() -> Self {
        Self { table: [0; REPORT_SIZE], next: 0 }
    }

    /// Takes a frame of any offset. Returns something after the last frame of a report that came
    /// without a gap.
    pub fn take(&mut self, offset: u8, bytes: &[u8]) -> Option<Result<Report<'_>, BadReport>> {
        let number = match offset.checked_sub(FIRST_OF_REPORT) {
            Some(number) if number < REPORT_FRAMES => number,
            _ => return None,
        };
        let expected = number == 0 || number == self.next;
        self.next = 0;
        let part = self.table.chunks_mut(FRAME_SIZE).nth(number.into())?;
        if !expected || bytes.len() != part.len() {
            return None; // frames were lost, or two reports are mixed: wait for a first frame
        }
        part.copy_from_slice(bytes);
        if number + 1 < REPORT_FRAMES {
            self.next = number + 1;
            return None;
        }
        Some(Report::parse(&self.table))
    }
}

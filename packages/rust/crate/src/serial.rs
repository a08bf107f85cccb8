// SPDX-License-Identifier: MIT
//! The transport for a serial line: the packets follow each other, with nothing between them.

use crate::{Heartbeat, Report, PACKET_SIZE, REPORT_SIZE, REQUEST};

/// Finds packets in what an agent receives.
///
/// ```
/// use dumpulse::{serial::Packets, REQUEST};
///
/// let mut packets = Packets::new();
/// let mut found = b"noise AreyouOK".iter().filter_map(|&byte| packets.take(byte));
/// assert_eq!(found.next(), Some(REQUEST));
/// assert_eq!(found.next(), None);
/// ```
#[derive(Debug, Clone)]
pub struct Packets {
    last: [u8; PACKET_SIZE],
}

impl Default for Packets {
    fn default() -> Self {
        Self::new()
    }
}

impl Packets {
    /// Nothing was received yet.
    pub const fn new() -> Self {
        Self { last: [0; PACKET_SIZE] } // no packet begins with a zero
    }

    /// Takes a byte. Returns the packet that ends with it, if there is one.
    pub fn take(&mut self, byte: u8) -> Option<[u8; PACKET_SIZE]> {
        self.last.copy_within(1.., 0);
        self.last[PACKET_SIZE - 1] = byte;
        if self.last != REQUEST && Heartbeat::decode(&self.last).is_none() {
            return None;
        }
        let packet = self.last;
        *self = Self::new(); // no byte belongs to two packets
        Some(packet)
    }
}

/// Finds a report in what a reader receives.
///
/// After each byte it sums 256 bytes. At 115,200 baud this is 3 million additions in a second.
#[derive(Debug, Clone)]
pub struct Reports {
    last: [u8; REPORT_SIZE],
    missing: usize, // bytes, until there are 260
}

impl Default for Reports {
    fn default() -> Self {
        Self::new()
    }
}

impl Reports {
    /// Begin anew with each request.
    pub const fn new() -> Self {
        Self { last: [0; REPORT_SIZE], missing: REPORT_SIZE }
    }

    /// Takes a byte. Returns the report that ends with it, if there is one.
    pub fn take(&mut self, byte: u8) -> Option<Report<'_>> {
        self.last.copy_within(1.., 0);
        self.last[REPORT_SIZE - 1] = byte;
        self.missing = self.missing.saturating_sub(1);
        if self.missing != 0 || Report::parse(&self.last).is_err() {
            return None;
        }
        self.missing = REPORT_SIZE; // no byte belongs to two reports
        Report::parse(&self.last).ok()
    }
}

// SPDX-License-Identifier: MIT
//! The agent.

use crate::packet::place;
use crate::{checksum, Entry, Heartbeat, Variable, REPORT_SIZE, REQUEST};

/// Keeps the last heartbeat of each variable, in 260 bytes.
///
/// The C library has two hooks: a clock and a way to send. Here, the clock is given with each call,
/// and a report is returned. So there are no global functions to write, and agents know nothing of
/// each other. The compiler sees to it that a report is sent or copied before the next packet
/// changes it.
///
/// ```
/// use dumpulse::{Agent, Heartbeat, Outcome, Report, REQUEST};
///
/// let mut agent = Agent::new();
/// let clock = || 4660; // any unit; it is called if a heartbeat comes, and at no other time
/// let alive = Heartbeat::new(3, 76, 9).unwrap();
/// assert_eq!(agent.process(&alive.encode(), clock), Outcome::Heartbeat(alive));
/// assert_eq!(agent.process(b"hello", clock), Outcome::Refused);
/// match agent.process(&REQUEST, clock) {
///     Outcome::Report(report) => {
///         let entry = Report::parse(report).unwrap().entry(alive.variable).unwrap();
///         assert_eq!((entry.timestamp, entry.sender, entry.value), (4660, 76, 9));
///     }
///     _ => unreachable!("it was a request"),
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    table: [u8; REPORT_SIZE],
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a report must be sent"]
pub enum Outcome<'a> {
    /// It is not for the agent, or damaged. Nothing has changed.
    Refused,
    /// The entry of one variable was written.
    Heartbeat(Heartbeat),
    /// Somebody asks: send these bytes to them. You may also drop them, to limit how many are sent.
    Report(&'a [u8; REPORT_SIZE]),
}

impl Default for Agent {
    fn default() -> Self {
        Self::new()
    }
}

impl Agent {
    /// An agent that has heard nothing.
    pub const fn new() -> Self {
        Self { table: [0; REPORT_SIZE] }
    }

    /// The agent that [`as_bytes`](Self::as_bytes) was called of, perhaps before a reset. All bytes
    /// are safe: they are the table, whatever they are.
    pub const fn from_bytes(table: [u8; REPORT_SIZE]) -> Self {
        Self { table }
    }

    /// The whole state. It is the last report, with the entries that were written since then: the
    /// checksum may be old.
    pub const fn as_bytes(&self) -> &[u8; REPORT_SIZE] {
        &self.table
    }

    /// Takes a packet from the network, which may be any bytes. The clock counts in any unit, and
    /// wraps around. It is called once if the packet is a heartbeat, and never otherwise.
    pub fn process(&mut self, packet: &[u8], clock: impl FnOnce() -> u16) -> Outcome<'_> {
        if let Some(heartbeat) = Heartbeat::decode(packet) {
            self.record(heartbeat, clock);
            return Outcome::Heartbeat(heartbeat);
        }
        if packet != REQUEST {
            return Outcome::Refused;
        }
        let sum = checksum(&self.table[4..]).to_be_bytes();
        self.table[..4].copy_from_slice(&sum);
        Outcome::Report(&self.table)
    }

    /// Records a variable of the agent's own, as if its heartbeat had come in. An agent that does
    /// this before each request tells its readers the time.
    pub fn record(&mut self, heartbeat: Heartbeat, clock: impl FnOnce() -> u16) {
        let [high, low] = clock().to_be_bytes();
        let at = place(heartbeat.variable);
        self.table[at..at + 4].copy_from_slice(&[high, low, heartbeat.sender, heartbeat.value]);
    }

    /// The entry of a variable, or `None` if it was never set.
    pub fn entry(&self, variable: Variable) -> Option<Entry> {
        Entry::of_table(&self.table, variable)
    }
}

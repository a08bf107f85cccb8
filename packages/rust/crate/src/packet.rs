// SPDX-License-Identifier: MIT
//! Heartbeats and reports.

use crate::{checksum, PACKET_SIZE, REPORT_SIZE, VARIABLES};
use core::fmt;

const MAGIC: u8 = 0xF1;

/// The number of a variable: 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(u8);

impl Variable {
    /// Returns `None` if the number is above 63.
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < VARIABLES {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// All variables, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..VARIABLES as u8).map(Self)
    }
}

/// What a node tells the agent: "I am alive", and a value.
///
/// ```
/// use dumpulse::Heartbeat;
///
/// const ALIVE: Heartbeat = match Heartbeat::new(3, 76, 9) {
///     Some(heartbeat) => heartbeat,
///     None => panic!("a variable is 0 to 63"),
/// };
/// const PACKET: [u8; 8] = ALIVE.encode(); // made by the compiler
/// assert_eq!(PACKET, [0x04, 0x72, 0x01, 0x4a, 0xf1, 3, 76, 9]);
/// assert_eq!(Heartbeat::decode(&PACKET), Some(ALIVE));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    /// Which variable it is for.
    pub variable: Variable,
    /// Who says that it is sending. A node should not use 0: see [`Entry`](crate::Entry).
    pub sender: u8,
    /// The value. The protocol gives no meaning to it.
    pub value: u8,
}

impl Heartbeat {
    /// Returns `None` if the variable is above 63.
    pub const fn new(variable: u8, sender: u8, value: u8) -> Option<Self> {
        match Variable::new(variable) {
            Some(variable) => Some(Self { variable, sender, value }),
            None => None,
        }
    }

    /// The 8 bytes to send.
    pub const fn encode(self) -> [u8; PACKET_SIZE] {
        let rest = [MAGIC, self.variable.get(), self.sender, self.value];
        let sum = checksum(&rest).to_be_bytes();
        [sum[0], sum[1], sum[2], sum[3], rest[0], rest[1], rest[2], rest[3]]
    }

    /// Reads a packet, which may be any bytes. Returns `None` if it is not a heartbeat, or damaged.
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let heartbeat = match *packet {
            [.., variable, sender, value] => Self::new(variable, sender, value)?,
            _ => return None,
        };
        (packet == heartbeat.encode()).then_some(heartbeat)
    }
}

/// What a report says of one variable.
///
/// An entry of four zero bytes is a variable that was never set: then there is no `Entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The agent's clock when the heartbeat came.
    pub timestamp: u16,
    /// Who sent it.
    pub sender: u8,
    /// The value.
    pub value: u8,
}

impl Entry {
    /// How long ago the heartbeat came, if the agent's clock is now at `now`, in the clock's unit.
    /// This is right for ages below 65536 units. After that it starts again from 0.
    ///
    /// ```
    /// let entry = dumpulse::Entry { timestamp: 65530, sender: 76, value: 9 };
    /// assert_eq!((entry.age(65530), entry.age(4), entry.age(65529)), (0, 10, 65535));
    /// ```
    pub const fn age(self, now: u16) -> u16 {
        now.wrapping_sub(self.timestamp)
    }

    pub(crate) fn of_table(table: &[u8; REPORT_SIZE], variable: Variable) -> Option<Self> {
        let at = place(variable);
        let (timestamp, sender, value) =
            (u16::from_be_bytes([table[at], table[at + 1]]), table[at + 2], table[at + 3]);
        (table[at..at + 4] != [0; 4]).then_some(Self { timestamp, sender, value })
    }
}

/// Where the entry of a variable begins: at most 4 + 4 * 63 = 256.
pub(crate) fn place(variable: Variable) -> usize {
    4 + 4 * usize::from(variable.get())
}

/// A report whose length and checksum are right.
///
/// ```
/// use dumpulse::{BadReport, Report};
///
/// assert_eq!(Report::parse(b"AreyouOK"), Err(BadReport::Length(8)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report<'a>(&'a [u8; REPORT_SIZE]);

impl<'a> Report<'a> {
    /// Checks a packet, which may be any bytes. If this fails, ask the agent again.
    pub fn parse(packet: &'a [u8]) -> Result<Self, BadReport> {
        let table: &[u8; REPORT_SIZE] =
            packet.try_into().map_err(|_| BadReport::Length(packet.len()))?;
        let told = u32::from_be_bytes([table[0], table[1], table[2], table[3]]);
        let right = checksum(&table[4..]);
        if told == right {
            Ok(Self(table))
        } else {
            Err(BadReport::Checksum { told, right })
        }
    }

    /// The entry of a variable, or `None` if the variable was never set.
    pub fn entry(&self, variable: Variable) -> Option<Entry> {
        Entry::of_table(self.0, variable)
    }

    /// The variables that were set, in order, with their entries.
    pub fn entries(&self) -> impl Iterator<Item = (Variable, Entry)> + 'a {
        let table = self.0;
        Variable::all().filter_map(move |each| Some((each, Entry::of_table(table, each)?)))
    }
}

/// Why a packet is not a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadReport {
    /// It has this many bytes, not 260.
    Length(usize),
    /// It was damaged, or is from an agent that computes wrong checksums.
    Checksum {
        /// The checksum in the packet.
        told: u32,
        /// The checksum of its entries.
        right: u32,
    },
}

impl fmt::Display for BadReport {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(to, "it is {length} bytes long, not {REPORT_SIZE}"),
            Self::Checksum { told, right } => {
                write!(to, "its checksum is {told:08x}, not {right:08x}")
            }
        }
    }
}

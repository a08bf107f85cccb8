// SPDX-License-Identifier: MIT
//! Heartbeats.

use crate::{checksum, PACKET_SIZE, VARIABLES};
use core::fmt;

const MAGIC: u8 = 0xF1;

/// The number of a variable: 0 to 63.
///
/// ```
/// use dumpulse::{NoVariable, Variable};
///
/// assert_eq!(Variable::try_from(63).map(u8::from), Ok(63));
/// assert_eq!(Variable::try_from(64), Err(NoVariable(64)));
/// ```
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

impl TryFrom<u8> for Variable {
    type Error = NoVariable;

    fn try_from(number: u8) -> Result<Self, NoVariable> {
        Self::new(number).ok_or(NoVariable(number))
    }
}

impl From<Variable> for u8 {
    fn from(variable: Variable) -> Self {
        variable.get()
    }
}

/// This number is no variable: it is above 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoVariable(pub u8);

impl fmt::Display for NoVariable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} is no variable: they are 0 to 63", self.0)
    }
}

#[cfg(feature = "std")]
impl std::error::Error for NoVariable {}

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

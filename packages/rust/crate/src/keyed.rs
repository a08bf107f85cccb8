// SPDX-License-Identifier: MIT
//! Version 2 of the protocol: nobody can speak in another's name, and nothing old is taken.
//!
//! Here are its nodes and its reader. `dumpulse key` makes keys: each node has its own, and readers
//! have one. An agent is `udpserver --key`, or one in C.

use crate::{Entry, Variable, PACKET_SIZE, VARIABLES};

/// The bytes of a report of version 2: 8 of tag, and 64 entries of 4.
pub const REPORT_SIZE: usize = 264;

const READERS: u8 = 64; // their label; those of nodes are the variables
const BEACON_END: u8 = 0x20; // a beacon has less in byte 4
const IS_COUNTED: u8 = 0x80;
const MOST: u8 = 255; // packets in an epoch

type Block = [u32; 4];

/// Twelve rounds of Chaskey.
fn permute([mut a, mut b, mut c, mut d]: Block) -> Block {
    for _ in 0..12 {
        a = a.wrapping_add(b);
        b = b.rotate_left(5) ^ a;
        a = a.rotate_left(16);
        c = c.wrapping_add(d);
        d = d.rotate_left(8) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(13) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(7) ^ c;
        c = c.rotate_left(16);
    }
    [a, b, c, d]
}

fn xor(a: Block, b: Block) -> Block {
    [a[0] ^ b[0], a[1] ^ b[1], a[2] ^ b[2], a[3] ^ b[3]]
}

fn words(bytes: &[u8]) -> Block {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4), word(8), word(12)]
}

/// Who speaks, with which key, and how far it has come in its epoch.
#[derive(Clone)]
struct Role {
    label: u8,
    key: Block,
    epoch: u32, // 0: none yet
    left: u8,   // packets that can be made in it
}

impl Role {
    fn new(label: u8, key: [u8; 16]) -> Self {
        Self { label, key: words(&key), epoch: 0, left: 0 }
    }

    /// The tag of bytes 4 to 7 with this number, after these blocks.
    fn tag(&self, blocks: &[u8], number: u32, rest: [u8; 4]) -> [u8; 8] {
        let key = self.key;
        let carry = (key[3] >> 31) * 0x87;
        let doubled = [
            key[0] << 1 ^ carry,
            key[1] << 1 | key[0] >> 31,
            key[2] << 1 | key[1] >> 31,
            key[3] << 1 | key[2] >> 31,
        ];
        let who = u32::from_le_bytes([self.label; 4]);
        let mixed = blocks.chunks_exact(16).fold(key, |at, block| permute(xor(at, words(block))));
        let last = xor([who, who, number, u32::from_le_bytes(rest)], doubled);
        let tag = xor(permute(xor(mixed, last)), doubled);
        (u64::from(tag[0]) | u64::from(tag[1]) << 32).to_le_bytes()
    }

    fn packet(&self, number: u32, rest: [u8; 4]) -> [u8; PACKET_SIZE] {
        let tag = self.tag(&[], number, rest);
        [tag[0], tag[1], tag[2], tag[3], rest[0], rest[1], rest[2], rest[3]]
    }

    fn question(&self) -> [u8; PACKET_SIZE] {
        [0, 0, 0, 0, IS_COUNTED + self.label, 0, 0, 0]
    }

    fn hear(&mut self, packet: &[u8]) -> bool {
        let rest = match *packet {
            [_, _, _, _, a, b, c, d] if a < BEACON_END => [a, b, c, d],
            _ => return false,
        };
        let epoch = u32::from_be_bytes(rest);
        if epoch <= self.epoch || !same(&self.packet(epoch, rest), packet) {
            return false;
        }
        *self = Self { epoch, left: MOST, ..*self };
        true
    }

    fn counted(&mut self, first: u8, second: u8) -> Option<[u8; PACKET_SIZE]> {
        self.left = self.left.checked_sub(1)?;
        Some(self.packet(self.epoch, [IS_COUNTED + self.label, MOST - self.left, first, second]))
    }
}

/// Compares in a time that does not depend on where they differ: the bits that do are gathered first.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// A node, which hears the beacons of its agent. It keeps nothing over a reset.
///
/// ```
/// use dumpulse::{keyed, Variable};
///
/// let key = 0xe8d50ff1603c77a081cacbb578604a8d_u128.to_be_bytes(); // of variable 3
/// let mut node = keyed::Node::new(Variable::new(3).unwrap(), key);
/// assert_eq!(node.heartbeat(76, 9), None); // first send node.question()
/// assert!(node.hear(&[0x00, 0x19, 0x29, 0x42, 0x00, 0x01, 0x23, 0x45])); // the answer
/// let packet = node.heartbeat(76, 9).unwrap(); // now send it
/// assert_eq!(packet, [0x44, 0xb3, 0xbd, 0xd5, 0x83, 0x01, 0x4c, 0x09]);
/// ```
#[derive(Clone)]
pub struct Node(Role);

impl Node {
    /// A node that knows no epoch yet. If no beacon of its epoch has come for 30 epochs, begin with
    /// a new one: the specification says why.
    pub fn new(variable: Variable, key: [u8; 16]) -> Self {
        Self(Role::new(variable.get(), key))
    }

    /// Asks the agent for its beacon: send it after a reset, and when beacons do not come.
    pub fn question(&self) -> [u8; PACKET_SIZE] {
        self.0.question()
    }

    /// Takes a packet, which may be any bytes. Returns whether it is the beacon of a later epoch.
    pub fn hear(&mut self, packet: &[u8]) -> bool {
        self.0.hear(packet)
    }

    /// Makes the next heartbeat. `None`: there is no epoch yet, or 255 were made in it.
    pub fn heartbeat(&mut self, sender: u8, value: u8) -> Option<[u8; PACKET_SIZE]> {
        self.0.counted(sender, value)
    }
}

/// Who asks an agent for its report.
///
/// Send [`question`](Self::question), [`hear`](Self::hear) the answer, send a request, and check
/// the report. If a beacon comes instead, hear it, and make a request with another nonce, at most
/// twice. Keep the last epoch, and do not ask in an older one: then no older report is ever
/// believed.
#[derive(Clone)]
pub struct Reader {
    role: Role,
    asked: Option<(u32, [u8; 4])>, // the epoch and the bytes 4 to 7 of the last request
}

impl Reader {
    /// A reader that knows no epoch yet.
    pub fn new(key: [u8; 16]) -> Self {
        Self { role: Role::new(READERS, key), asked: None }
    }

    /// Asks the agent for its beacon.
    pub fn question(&self) -> [u8; PACKET_SIZE] {
        self.role.question()
    }

    /// Takes a packet, which may be any bytes. Returns whether it is the beacon of a later epoch.
    pub fn hear(&mut self, packet: &[u8]) -> bool {
        self.role.hear(packet)
    }

    /// The epoch of the last beacon. 0: none was heard.
    pub fn epoch(&self) -> u32 {
        self.role.epoch
    }

    /// Asks for a report. The nonce must be new, and nobody may know it before. `None`: no beacon
    /// was heard, or 255 requests were made in its epoch.
    pub fn request(&mut self, nonce: [u8; 2]) -> Option<[u8; PACKET_SIZE]> {
        let packet = self.role.counted(nonce[0], nonce[1])?;
        self.asked = Some((self.role.epoch, [packet[4], packet[5], nonce[0], nonce[1]]));
        Some(packet)
    }

    /// Checks a packet, which may be any bytes. Each request has one report at most, and none after
    /// the beacon of a later epoch: then it may have been held back, so ask again.
    pub fn check<'a>(&mut self, packet: &'a [u8]) -> Option<Report<'a>> {
        let report: &[u8; REPORT_SIZE] = packet.try_into().ok()?;
        let (epoch, rest) = self.asked?;
        let right = self.role.tag(&report[8..], epoch, rest);
        if epoch != self.role.epoch || !same(&right, &report[..8]) {
            return None;
        }
        self.asked = None;
        Some(Report(report))
    }
}

/// A report whose tag was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report<'a>(&'a [u8; REPORT_SIZE]);

impl Report<'_> {
    /// The entry of a variable, or `None` if the variable was never set.
    pub fn entry(&self, variable: Variable) -> Option<Entry> {
        let at = REPORT_SIZE - 4 * (VARIABLES - usize::from(variable.get()));
        Entry::of_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }
}

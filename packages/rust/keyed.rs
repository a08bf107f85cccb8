// SPDX-License-Identifier: MIT
//! ../cmake/consumer/keyed.c in Rust, for the tests: an announce and a heartbeat on the output.
//! Its key is that of variable 7.
use dumpulse::{keyed, Variable};
use std::io::Write;

fn main() {
    let words: Vec<u8> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let key = 0xc7c27a4fcf82265e1642328fdd3e8890_u128.to_be_bytes();
    let number = keyed::Sender::next_number(keyed::FIRST_NUMBER).unwrap();
    let mut node = keyed::Sender::new(Variable::new(words[0]).unwrap(), key, number);
    let mut out = std::io::stdout();
    out.write_all(&node.announce()).unwrap();
    out.write_all(&node.heartbeat(words[1], words[2]).unwrap()).unwrap();
}

// SPDX-License-Identifier: MIT
//! Version 2, for the tests. With arguments, it is ../cmake/consumer/keyed.c in Rust, with
//! the key of variable 7. Without, it takes the vectors of version 2 on the input: those of nodes
//! and of readers.
use dumpulse::keyed::{Node, Reader};
use dumpulse::{Agent, Variable};
use std::collections::HashMap;
use std::io::{Read, Write};

#[derive(Default)]
struct Steps {
    keys: HashMap<u8, [u8; 16]>,
    node: Option<Node>,
    reader: Option<Reader>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len() & !1).step_by(2).map(byte).collect()
}

fn made(packet: Option<[u8; 8]>) -> Vec<u8> {
    packet.map_or(Vec::new(), Vec::from)
}

impl Steps {
    fn node(&mut self, label: u8) -> Option<&mut Node> {
        let variable = Variable::new(label)?;
        Some(self.node.get_or_insert_with(|| Node::new(variable, self.keys[&label])))
    }

    fn reader(&mut self) -> &mut Reader {
        self.reader.get_or_insert_with(|| Reader::new(self.keys[&64]))
    }

    fn beat(&mut self, label: u8, sender: u8, value: u8) -> Option<[u8; 8]> {
        self.node(label)?.heartbeat(sender, value)
    }

    /// Takes a step, and compares what it gives with what it should. Is it one of these roles?
    fn take(&mut self, words: &[&str]) -> bool {
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
        let label = number(1);
        match *words {
            ["master", ..] => *self = Self::default(),
            ["key", _, _, key] => drop(self.keys.insert(label, bytes(key).try_into().unwrap())),
            ["node"] => self.node = None,
            ["reader"] => self.reader = None,
            ["hear", _, heard, packet] => {
                assert_eq!(self.node(label).unwrap().hear(&bytes(packet)), heard == "yes");
            }
            ["question", _, packet] if label < 64 => {
                self.node = None;
                assert_eq!(made(self.node(label).map(|node| node.question())), bytes(packet));
            }
            ["beat", _, _, _, times, packet] => {
                let beats = 0..times.parse::<u32>().unwrap();
                let last = beats.map(|_| self.beat(label, number(2), number(3))).last();
                assert_eq!(made(last.unwrap()), bytes(packet));
            }
            ["listen", heard, packet] => {
                assert_eq!(self.reader().hear(&bytes(packet)), heard == "yes");
            }
            ["request", nonce, packet] => {
                let nonce = bytes(nonce).try_into().unwrap();
                assert_eq!(made(self.reader().request(nonce)), bytes(packet));
            }
            ["check", report, right] => {
                let report = bytes(report);
                let read = self.reader().check(&report);
                assert_eq!(read.is_some(), right == "yes");
                if let Some(read) = read {
                    let agent = Agent::from_bytes(report[4..].try_into().unwrap());
                    assert!(Variable::all().all(|each| read.entry(each) == agent.entry(each)));
                }
            }
            _ => return false,
        }
        true
    }
}

fn main() {
    let words: Vec<u8> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    if words.is_empty() {
        let (mut steps, mut taken) = (Steps::default(), 0);
        for line in std::io::stdin().lines().map(Result::unwrap) {
            eprintln!("{line}"); // the last one shows which step fails
            taken += u32::from(steps.take(&line.split('\t').collect::<Vec<_>>()));
        }
        println!("{taken}");
        return;
    }
    let key = 0xc7c27a4fcf82265e1642328fdd3e8890_u128.to_be_bytes();
    let mut node = Node::new(Variable::new(words[0]).unwrap(), key);
    let mut beacon = Vec::new();
    std::io::stdin().read_to_end(&mut beacon).unwrap();
    let heard = node.hear(&beacon);
    let packet = if heard { node.heartbeat(words[1], words[2]).unwrap() } else { node.question() };
    std::io::stdout().write_all(&packet).unwrap();
}

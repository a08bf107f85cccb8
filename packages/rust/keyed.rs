// SPDX-License-Identifier: MIT
//! Version 2, for the tests. With arguments, it is ../cmake/consumer/keyed.c in Rust: an announce
//! and a heartbeat on the output, with the key of variable 7. Without, it takes the vectors of
//! version 2 on the input: those of nodes, of nodes that only send, and of readers.
use dumpulse::keyed::{Node, Reader, Sender, FIRST_NUMBER};
use dumpulse::{Agent, Variable};
use std::collections::HashMap;
use std::io::Write;

#[derive(Default)]
struct Steps {
    keys: HashMap<u8, [u8; 16]>,
    stored: HashMap<u8, u32>,
    storing_fails: bool,
    node: Option<Node>,
    sender: Option<Sender>,
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

    /// The next number of a node that only sends is stored before it is used.
    fn begin(&mut self, label: u8) -> Option<Sender> {
        let variable = Variable::new(label)?;
        let stored = self.stored.get(&label).copied().unwrap_or(0);
        let next = Sender::next_number(stored).filter(|_| !self.storing_fails)?;
        self.stored.insert(label, next);
        Some(Sender::new(variable, self.keys[&label], next))
    }

    fn beat(&mut self, label: u8, sender: u8, value: u8) -> Option<[u8; 8]> {
        match &mut self.sender {
            Some(node) => node.heartbeat(sender, value),
            None => self.node(label)?.heartbeat(sender, value),
        }
    }

    /// Takes a step, and compares what it gives with what it should. Is it one of these roles?
    fn take(&mut self, words: &[&str]) -> bool {
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
        let label = number(1);
        match *words {
            ["master", ..] => *self = Self::default(),
            ["key", _, _, key] => drop(self.keys.insert(label, bytes(key).try_into().unwrap())),
            ["number", _, hex] => {
                self.stored.insert(label, u32::from_str_radix(hex, 16).unwrap());
            }
            ["fails", yes] => self.storing_fails = yes == "yes",
            ["node"] => (self.node, self.sender) = (None, None),
            ["reader"] => self.reader = None,
            ["hear", _, heard, packet] => {
                let node = self.node(label).unwrap();
                assert_eq!(node.hear(&bytes(packet)), heard != "no");
                assert!(heard == "no" || node.twice() == (heard == "twice"));
            }
            ["question", _, packet] if label < 64 => {
                self.node = None;
                assert_eq!(made(self.node(label).map(|node| node.question())), bytes(packet));
            }
            ["sender", _, begun] => {
                self.sender = self.begin(label);
                assert_eq!(self.sender.is_some(), begun == "yes");
            }
            // In C, it is no error to ask for one too early or too late.
            ["announced", _, packet] if packet != "-" => {
                assert_eq!(made(self.sender.as_ref().map(Sender::announce)), bytes(packet));
            }
            ["beat", _, _, _, times, packet] => {
                let beats = 0..times.parse::<u32>().unwrap();
                let last = beats.map(|_| self.beat(label, number(2), number(3))).last();
                assert_eq!(made(last.unwrap()), bytes(packet));
            }
            ["listen", heard, packet] => {
                assert_eq!(self.reader().hear(&bytes(packet)), heard != "no");
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
    let number = Sender::next_number(FIRST_NUMBER).unwrap();
    let mut node = Sender::new(Variable::new(words[0]).unwrap(), key, number);
    let mut out = std::io::stdout();
    out.write_all(&node.announce()).unwrap();
    out.write_all(&node.heartbeat(words[1], words[2]).unwrap()).unwrap();
}

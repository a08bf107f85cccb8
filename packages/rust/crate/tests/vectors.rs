// SPDX-License-Identifier: MIT
//! All steps of vectors.tsv, whose first lines explain the format.

use dumpulse::{Agent, BadReport, Entry, Heartbeat, Outcome, Report, Variable};
use std::cell::Cell;

fn bytes(hex: &str) -> Vec<u8> {
    if hex == "-" {
        return Vec::new();
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn number(text: &str) -> u8 {
    text.parse().unwrap()
}

fn entry(hex: &str) -> Option<Entry> {
    match bytes(hex)[..] {
        [0, 0, 0, 0] => None,
        [high, low, sender, value] => {
            Some(Entry { timestamp: u16::from_be_bytes([high, low]), sender, value })
        }
        _ => panic!("not an entry: {hex}"),
    }
}

/// Writes what the vectors say into a table.
fn write(table: &mut [u8; 260], variable: &str, entry: &str) {
    let at = 4 + 4 * usize::from(number(variable));
    table[at..at + 4].copy_from_slice(&bytes(entry));
}

fn step(agent: &mut Agent, fields: &[&str]) {
    let mut table = *agent.as_bytes();
    let calls = Cell::new(0);
    let clock = |now: &str| {
        calls.set(calls.get() + 1);
        now.parse::<u16>().unwrap()
    };
    match *fields {
        ["table", whole] => {
            *agent = Agent::from_bytes(bytes(whole).try_into().unwrap());
            return;
        }
        ["refused", now, packet] => {
            let packet = bytes(packet);
            assert_eq!(agent.process(&packet, || clock(now)), Outcome::Refused);
            assert_eq!(calls.get(), 0);
            assert_eq!(Heartbeat::decode(&packet), None);
        }
        ["heartbeat", now, packet, variable, entry] => {
            let packet = bytes(packet);
            let heartbeat = Heartbeat::decode(&packet).unwrap();
            assert_eq!(heartbeat.variable.get(), number(variable));
            assert_eq!(agent.process(&packet, || clock(now)), Outcome::Heartbeat(heartbeat));
            assert_eq!(calls.get(), 1);
            write(&mut table, variable, entry);
        }
        ["report", now, packet, whole] => {
            table = bytes(whole).try_into().unwrap();
            let outcome = agent.process(&bytes(packet), || clock(now));
            assert_eq!(outcome, Outcome::Report(&table));
            assert_eq!(calls.get(), 0);
        }
        ["record", now, variable, sender, value, entry] => {
            let heartbeat = Heartbeat::new(number(variable), number(sender), number(value));
            assert_eq!(heartbeat.is_none(), entry == "-");
            if let Some(heartbeat) = heartbeat {
                agent.record(heartbeat, || clock(now));
                assert_eq!(calls.get(), 1);
                write(&mut table, variable, entry);
            }
        }
        ["make", variable, sender, value, packet] => {
            match Heartbeat::new(number(variable), number(sender), number(value)) {
                Some(heartbeat) => assert_eq!(heartbeat.encode()[..], bytes(packet)),
                // Rust makes no such packet. C makes one that everybody refuses.
                None => {
                    assert!(number(variable) > 63);
                    assert_eq!(Heartbeat::decode(&bytes(packet)), None);
                }
            }
        }
        ["check", packet, expected] => {
            let packet = bytes(packet);
            match Report::parse(&packet) {
                Ok(report) => {
                    assert_eq!((report.as_bytes()[..].to_vec(), "yes"), (packet, expected))
                }
                Err(BadReport::Length(length)) => {
                    assert_eq!((length, "no"), (packet.len(), expected));
                    assert_ne!(length, 260);
                }
                Err(BadReport::Checksum { told, right }) => {
                    assert_eq!(expected, "no");
                    assert_eq!(told.to_be_bytes(), packet[..4]);
                    assert_ne!(told, right);
                }
            }
        }
        ["read", variable, expected] => match Variable::new(number(variable)) {
            Some(variable) => assert_eq!(agent.entry(variable), entry(expected)),
            None => assert_eq!(entry(expected), None),
        },
        _ => panic!("an unknown step"),
    }
    assert_eq!(agent.as_bytes(), &table);
}

#[test]
fn all_vectors() {
    let mut agent = Agent::new();
    let mut steps = 0;
    for (at, line) in include_str!("vectors.tsv").lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        println!("line {}: {line}", at + 1); // is shown if a step fails
        step(&mut agent, &line.split('\t').collect::<Vec<_>>());
        steps += 1;
    }
    println!("{steps} steps passed");
    assert!(steps > 300);
}

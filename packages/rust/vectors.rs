// SPDX-License-Identifier: MIT
//! Does the crate do what the vectors say? Their file is the argument; spec/README.md has its
//! format. It is for the tests and not in the crate: test_rust.py compiles it.
use dumpulse::{Agent, Heartbeat, Outcome, Report, Variable};

fn bytes(text: &str) -> Vec<u8> {
    let digits = text.trim_matches('-');
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn number(text: &str) -> u16 {
    text.parse().unwrap()
}

fn heartbeat(fields: &[&str]) -> Option<Heartbeat> {
    Heartbeat::new(number(fields[0]) as u8, number(fields[1]) as u8, number(fields[2]) as u8)
}

/// A step with a packet: what the agent returns, and what is in its table then.
fn process(agent: &mut Agent, fields: &[&str]) {
    let (packet, mut table, mut clock_reads) = (bytes(fields[2]), *agent.as_bytes(), 0);
    match fields[0] {
        "heartbeat" => {
            let at = 4 + 4 * usize::from(number(fields[3]));
            table[at..at + 4].copy_from_slice(&bytes(fields[4]));
        }
        "report" => table = bytes(fields[3]).try_into().unwrap(),
        _ => {}
    }
    let outcome = agent.process(&packet, || {
        clock_reads += 1;
        number(fields[1])
    });
    let kind = match outcome {
        Outcome::Refused => "refused",
        Outcome::Heartbeat(heartbeat) => {
            assert_eq!(packet, heartbeat.encode());
            "heartbeat"
        }
        Outcome::Report(report) => {
            assert_eq!(*report, table);
            "report"
        }
    };
    assert_eq!((kind, clock_reads), (fields[0], i32::from(fields[0] == "heartbeat")));
    assert_eq!(*agent.as_bytes(), table);
}

fn main() {
    let file = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    let (mut agent, mut steps) = (Agent::new(), 0);
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        steps += 1;
        match fields[0] {
            "table" => agent = Agent::from_bytes(bytes(fields[1]).try_into().unwrap()),
            "record" => match heartbeat(&fields[2..]) {
                Some(own) => {
                    agent.record(own, || number(fields[1]));
                    let at = 4 + 4 * usize::from(own.variable.get());
                    assert_eq!(agent.as_bytes()[at..at + 4], bytes(fields[5]));
                }
                None => assert_eq!(fields[5], "-"),
            },
            "make" => match heartbeat(&fields[1..]) {
                Some(made) => assert_eq!(made.encode()[..], bytes(fields[4])),
                None => assert!(number(fields[1]) > 63),
            },
            "check" => assert_eq!(Report::parse(&bytes(fields[1])).is_ok(), fields[2] == "yes"),
            "read" => {
                let entry = Variable::new(number(fields[1]) as u8).and_then(|it| agent.entry(it));
                let parts = |it: dumpulse::Entry| {
                    let [high, low] = it.timestamp.to_be_bytes();
                    vec![high, low, it.sender, it.value]
                };
                assert_eq!(entry.map_or(vec![0; 4], parts), bytes(fields[2]));
            }
            _ => process(&mut agent, &fields),
        }
    }
    println!("{steps} steps");
}

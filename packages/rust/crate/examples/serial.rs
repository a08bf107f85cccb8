// SPDX-License-Identifier: MIT
//! An agent and a reader on a serial line. Each function takes any driver with the traits of
//! `embedded-io`. Here they run on slices and vectors, which have them, too.
use dumpulse::{serial, Agent, Heartbeat, Outcome, REQUEST};
use embedded_io::{Read, Write};

/// Takes what has come in.
fn agent<R: Read, W: Write<Error = R::Error>>(
    line: &mut R,
    back: &mut W,
    packets: &mut serial::Packets,
    agent: &mut Agent,
    seconds: u16,
) -> Result<(), R::Error> {
    let mut buffer = [0; 16];
    let length = line.read(&mut buffer)?;
    for &byte in &buffer[..length] {
        if let Some(packet) = packets.take(byte) {
            if let Outcome::Report(report) = agent.process(&packet, || seconds) {
                back.write_all(report)?;
            }
        }
    }
    Ok(())
}

/// Reads until there is a report. A real reader asks again after a while.
fn reader<R: Read>(line: &mut R) -> Result<(), R::Error> {
    let mut reports = serial::Reports::new();
    let mut byte = [0];
    while line.read(&mut byte)? != 0 {
        if let Some(report) = reports.take(byte[0]) {
            for (variable, entry) in report.entries() {
                println!("{} {} {} {}", variable.get(), entry.timestamp, entry.sender, entry.value);
            }
            return Ok(());
        }
    }
    println!("no report");
    Ok(())
}

/// The two ends of a line in memory: what has come to the agent, and what it has sent.
fn main() {
    let mut line = Vec::new();
    for (variable, value) in [(3, 9), (63, 255)] {
        line.extend(Heartbeat::new(variable, 76, value).unwrap().encode());
        line.extend(b"noise");
    }
    line.extend(REQUEST);

    let (mut here, mut back) = (&line[..], Vec::new());
    let (mut table, mut packets) = (Agent::new(), serial::Packets::new());
    let mut seconds = 4660;
    while !here.is_empty() {
        agent(&mut here, &mut back, &mut packets, &mut table, seconds).unwrap();
        seconds += 1;
    }
    reader(&mut &back[..]).unwrap();
}

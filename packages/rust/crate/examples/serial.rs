// SPDX-License-Identifier: MIT
//! An agent and a reader on a serial line. Each function takes any driver with the traits of
//! `embedded-io`. Here they run on a line in memory.
use dumpulse::{serial, Agent, Heartbeat, Outcome, REQUEST};
use embedded_io::{ErrorType, Read, Write};
use std::{cell::RefCell, collections::VecDeque, convert::Infallible, rc::Rc};

/// Takes what has come in.
fn agent<L: Read + Write>(
    line: &mut L,
    packets: &mut serial::Packets,
    agent: &mut Agent,
    seconds: u16,
) -> Result<(), L::Error> {
    let mut buffer = [0; 16];
    let length = line.read(&mut buffer)?;
    for &byte in &buffer[..length] {
        if let Some(packet) = packets.take(byte) {
            if let Outcome::Report(report) = agent.process(&packet, || seconds) {
                line.write_all(report)?;
            }
        }
    }
    Ok(())
}

/// Reads until there is a report. A real reader asks again after a while.
fn reader<L: Read + Write>(line: &mut L) -> Result<(), L::Error> {
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

// ---- what follows stands in for the line ----

type Wire = Rc<RefCell<VecDeque<u8>>>;

struct End {
    from: Wire,
    to: Wire,
}

impl ErrorType for End {
    type Error = Infallible;
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Infallible> {
        let mut wire = self.from.borrow_mut();
        let length = buffer.len().min(wire.len());
        for (place, byte) in buffer.iter_mut().zip(wire.drain(..length)) {
            *place = byte;
        }
        Ok(length)
    }
}

impl Write for End {
    fn write(&mut self, buffer: &[u8]) -> Result<usize, Infallible> {
        self.to.borrow_mut().extend(buffer);
        Ok(buffer.len())
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn main() {
    let (there, back) = (Wire::default(), Wire::default());
    let mut here = End { from: back.clone(), to: there.clone() };
    let mut line = End { from: there.clone(), to: back };

    for (variable, value) in [(3, 9), (63, 255)] {
        here.write_all(&Heartbeat::new(variable, 76, value).unwrap().encode()).unwrap();
        here.write_all(b"noise").unwrap();
    }
    here.write_all(&REQUEST).unwrap();

    let (mut table, mut packets) = (Agent::new(), serial::Packets::new());
    let mut seconds = 4660;
    while !there.borrow().is_empty() {
        agent(&mut line, &mut packets, &mut table, seconds).unwrap();
        seconds += 1;
    }
    reader(&mut here).unwrap();
}

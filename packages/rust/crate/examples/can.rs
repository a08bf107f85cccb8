// SPDX-License-Identifier: MIT
//! A node, an agent and a reader on a CAN bus. Each function takes any driver with the traits of
//! `embedded-can`. Here they run on a bus in memory.
use dumpulse::{can, Agent, Heartbeat, Outcome, REQUEST};
use embedded_can::{blocking::Can, ErrorKind, ExtendedId, Frame, Id, StandardId};
use std::collections::VecDeque;

fn send<C: Can>(bus: &mut C, offset: u8, bytes: &[u8]) -> Result<(), C::Error> {
    let id = StandardId::new(can::DEFAULT_BASE as u16 + u16::from(offset)).expect("11 bits");
    bus.transmit(&C::Frame::new(id, bytes).expect("at most 8 bytes"))
}

/// The offset of a frame that is for Dumpulse.
fn offset(frame: &impl Frame) -> Option<u8> {
    match frame.id() {
        Id::Standard(id) if frame.is_data_frame() => {
            can::offset(id.as_raw().into(), can::DEFAULT_BASE)
        }
        _ => None,
    }
}

fn node<C: Can>(bus: &mut C, heartbeat: Heartbeat) -> Result<(), C::Error> {
    send(bus, can::heartbeat_offset(heartbeat.variable), &heartbeat.encode())
}

/// Takes one frame.
fn agent<C: Can>(bus: &mut C, agent: &mut Agent, seconds: u16) -> Result<(), C::Error> {
    let frame = bus.receive()?;
    if offset(&frame).map_or(false, can::is_for_agent) {
        if let Outcome::Report(report) = agent.process(frame.data(), || seconds) {
            for (offset, bytes) in can::frames(report) {
                send(bus, offset, bytes)?;
            }
        }
    }
    Ok(())
}

fn reader<C: Can>(bus: &mut C, joiner: &mut can::Joiner) -> Result<bool, C::Error> {
    let frame = bus.receive()?;
    let report = offset(&frame).and_then(|offset| joiner.take(offset, frame.data()));
    if let Some(Ok(report)) = report {
        for (variable, entry) in report.entries() {
            println!("{} {} {} {}", variable.get(), entry.timestamp, entry.sender, entry.value);
        }
        return Ok(true);
    }
    Ok(false)
}

// ---- what follows stands in for the bus and for its drivers ----

#[derive(Clone)]
struct Message(Id, Vec<u8>);

impl Frame for Message {
    fn new(id: impl Into<Id>, data: &[u8]) -> Option<Self> {
        (data.len() <= 8).then(|| Self(id.into(), data.to_vec()))
    }
    fn new_remote(_: impl Into<Id>, _: usize) -> Option<Self> {
        None
    }
    fn is_extended(&self) -> bool {
        matches!(self.0, Id::Extended(_))
    }
    fn is_remote_frame(&self) -> bool {
        false
    }
    fn id(&self) -> Id {
        self.0
    }
    fn dlc(&self) -> usize {
        self.1.len()
    }
    fn data(&self) -> &[u8] {
        &self.1
    }
}

/// What has come, and what was sent.
#[derive(Default)]
struct Controller(VecDeque<Message>, Vec<Message>);

impl Can for Controller {
    type Frame = Message;
    type Error = ErrorKind;

    fn transmit(&mut self, frame: &Message) -> Result<(), ErrorKind> {
        self.1.push(frame.clone());
        Ok(())
    }

    fn receive(&mut self) -> Result<Message, ErrorKind> {
        self.0.pop_front().ok_or(ErrorKind::Other) // nothing came
    }
}

fn main() {
    let mut bus = Controller::default();
    for (variable, value) in [(3, 9), (63, 255)] {
        node(&mut bus, Heartbeat::new(variable, 76, value).unwrap()).unwrap();
    }
    let heartbeat = Heartbeat::new(5, 76, 5).unwrap().encode();
    let elsewhere = Id::Extended(ExtendedId::new(can::DEFAULT_BASE).unwrap());
    bus.transmit(&Message(elsewhere, heartbeat.to_vec())).unwrap(); // ignored: 29 bits
    send(&mut bus, 97, &heartbeat).unwrap(); // ignored: no such frame
    send(&mut bus, can::REQUEST_OFFSET, &REQUEST).unwrap();

    let mut bus = Controller(bus.1.into(), Vec::new());
    let (mut table, mut seconds) = (Agent::new(), 4660);
    while agent(&mut bus, &mut table, seconds).is_ok() {
        seconds += 1;
    }
    let mut bus = Controller(bus.1.into(), Vec::new());
    let mut joiner = can::Joiner::new();
    while !reader(&mut bus, &mut joiner).expect("there is a report") {}
}

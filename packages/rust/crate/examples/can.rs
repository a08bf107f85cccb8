// SPDX-License-Identifier: MIT
//! A node, an agent and a reader on a CAN bus. Each function takes any driver with the traits of
//! `embedded-can`.
#![allow(dead_code)]
use dumpulse::{can, Agent, Heartbeat, Outcome, REQUEST};
use embedded_can::{blocking::Can, Frame, Id, StandardId};

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

fn ask<C: Can>(bus: &mut C) -> Result<(), C::Error> {
    send(bus, can::REQUEST_OFFSET, &REQUEST)
}

/// Takes one frame. Returns whether it was the last one of a report.
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

/// A program gives each function its driver: there is no bus here.
fn main() {}

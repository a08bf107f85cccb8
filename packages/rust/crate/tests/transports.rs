// SPDX-License-Identifier: MIT
//! CAN and serial lines, with what SPEC.md says of lost, mixed and damaged parts.

use dumpulse::can::{frames, is_for_agent, offset, Joiner, DEFAULT_BASE};
use dumpulse::serial::{Packets, Reports};
use dumpulse::{BadReport, Heartbeat, Report, Variable, REQUEST};

/// The worked report of SPEC.md.
fn worked() -> [u8; 260] {
    let mut report = [0; 260];
    report[..4].copy_from_slice(&[0x93, 0xd5, 0x00, 0x9c]);
    report[16..20].copy_from_slice(&[0x12, 0x34, 0x4c, 0x09]);
    report
}

/// An agent that has heard nothing.
fn silent() -> [u8; 260] {
    let mut report = [0; 260];
    report[..4].copy_from_slice(&[1, 0, 0, 1]);
    report
}

#[test]
fn identifiers() {
    let offsets = [0x67f, 0x680, 0x6ff, 0x700].map(|each| offset(each, DEFAULT_BASE));
    assert_eq!(offsets, [None, Some(0), Some(127), None]);
    let taken = (0..=255).filter(|&each| is_for_agent(each));
    assert!(taken.eq((0..64).chain([127])));
}

#[test]
fn a_joiner_wants_all_frames_in_order() {
    let (report, other) = (worked(), silent());
    let all: Vec<_> = frames(&report).collect();
    let mut joiner = Joiner::new();
    let last = |joiner: &mut Joiner, frames: &[(u8, &[u8])]| {
        let (last, before) = frames.split_last().unwrap();
        for (offset, bytes) in before {
            assert_eq!(joiner.take(*offset, bytes), None);
        }
        joiner.take(last.0, last.1).map(|report| report.map(|each| *each.as_bytes()))
    };
    assert_eq!(last(&mut joiner, &all), Some(Ok(report)));
    for gone in 0..all.len() {
        let mut rest = all.clone();
        rest.remove(gone);
        assert_eq!(last(&mut joiner, &rest), None, "frame {gone} was lost");
        rest.insert(gone, (all[gone].0, &all[gone].1[1..]));
        assert_eq!(last(&mut joiner, &rest), None, "frame {gone} is short");
        rest = all.clone();
        rest.insert(gone, all[gone.min(31)]);
        // A first frame begins a report again. Any other one must not come twice.
        let expected = if gone == 0 { Some(Ok(report)) } else { None };
        assert_eq!(last(&mut joiner, &rest), expected, "frame {gone} or 31 came twice");
        rest = all.clone();
        rest.insert(gone, (gone as u8, &REQUEST)); // a heartbeat's identifier, between the frames
        assert_eq!(last(&mut joiner, &rest), Some(Ok(report)));
    }
    let mixed: Vec<_> = all[..9].iter().copied().chain(frames(&other)).collect();
    assert_eq!(last(&mut joiner, &mixed), Some(Ok(other)));
    let mut damaged = report;
    damaged[100] ^= 1;
    let mut parts: Vec<_> = frames(&damaged).collect();
    assert!(matches!(last(&mut joiner, &parts), Some(Err(BadReport::Checksum { .. }))));
    parts[32].1 = &[0; 5];
    assert_eq!(last(&mut Joiner::default(), &parts), None);
}

fn packets(line: &[u8]) -> Vec<[u8; 8]> {
    let mut packets = Packets::default();
    line.iter().filter_map(|&byte| packets.take(byte)).collect()
}

#[test]
fn packets_on_a_line() {
    let heartbeats: Vec<_> =
        Variable::all().map(|variable| Heartbeat { variable, sender: 76, value: 9 }).collect();
    let mut line = Vec::new();
    for (at, each) in heartbeats.iter().enumerate() {
        line.extend(each.encode());
        line.extend(&REQUEST);
        line.extend(std::iter::repeat(0xf1).take(at % 9)); // noise
    }
    let sent: Vec<_> = heartbeats.iter().flat_map(|each| [each.encode(), REQUEST]).collect();
    assert_eq!(packets(&line), sent);

    // A byte that is lost costs the packet that it belongs to, and nothing else.
    let two: Vec<_> = heartbeats[..2].iter().flat_map(|each| each.encode()).collect();
    for gone in 0..8 {
        let mut rest = two.clone();
        rest.remove(gone);
        assert_eq!(packets(&rest), [heartbeats[1].encode()]);
    }
}

#[test]
fn no_byte_belongs_to_two_packets() {
    // One of the 64 pairs of heartbeats with another heartbeat in their middle.
    let pair = [Heartbeat::new(4, 255, 2), Heartbeat::new(0, 251, 51)].map(Option::unwrap);
    let line: Vec<_> = pair.iter().flat_map(|each| each.encode()).collect();
    assert!(Heartbeat::decode(&line[5..13]).is_some());
    assert_eq!(packets(&line), pair.map(Heartbeat::encode));

    // A report whose bytes 4 to 7 are the checksum of what follows, and of four bytes after it.
    let right = |table: &[u8]| match Report::parse(table) {
        Err(BadReport::Checksum { right, .. }) => right.to_be_bytes(),
        _ => panic!("the checksum is not there yet"),
    };
    let mut line = [7; 264];
    let inner = right(&line[4..]);
    line[4..8].copy_from_slice(&inner);
    let outer = right(&line[..260]);
    line[..4].copy_from_slice(&outer);
    assert!(Report::parse(&line[4..]).is_ok());
    let mut reports = Reports::new();
    let found = line.iter().filter(|&&byte| reports.take(byte).is_some()).count();
    assert_eq!(found, 1);
}

#[test]
fn reports_on_a_line() {
    let whole = worked();
    let mut reports = Reports::default();
    let mut found = Vec::new();
    for byte in [9, 9].into_iter().chain(whole).chain([7]).chain(silent()) {
        found.extend(reports.take(byte).map(|report| *report.as_bytes()));
    }
    assert_eq!(found, [whole, silent()]);
    let mut reports = Reports::new();
    assert!(whole[..259].iter().all(|&byte| reports.take(byte).is_none()));
}

#[test]
fn ages_wrap_around() {
    let report = worked();
    let entries: Vec<_> = Report::parse(&report).unwrap().entries().collect();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].1.age(0x1234), entries[0].1.age(0x1233)), (0, 65535));
}

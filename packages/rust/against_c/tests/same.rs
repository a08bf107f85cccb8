// SPDX-License-Identifier: MIT
//! Does the crate do what the C library does, for any input?
use against_c as c;
use dumpulse::{Agent, Heartbeat, Outcome, Report, Variable, REQUEST};
use proptest::prelude::*;

/// Packets of all kinds: good, nearly good, and anything.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let heartbeat = (0..70u8, any::<u8>(), any::<u8>())
        .prop_map(|(variable, sender, value)| c::make_heartbeat(variable, sender, value).to_vec());
    let damaged = (heartbeat.clone(), 0..8usize, any::<u8>()).prop_map(|(mut packet, at, bits)| {
        packet[at] ^= bits;
        packet
    });
    prop_oneof![
        4 => heartbeat,
        2 => damaged,
        1 => Just(REQUEST.to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 260),
    ]
}

fn tables() -> impl Strategy<Value = [u8; 260]> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 260),
        prop::collection::vec(prop_oneof![Just(0u8), Just(255)], 260),
    ]
    .prop_map(|bytes| bytes.try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None,
                                        ..ProptestConfig::default() })]

    #[test]
    fn encoders(variable: u8, sender: u8, value: u8) {
        let made = c::make_heartbeat(variable, sender, value);
        match Heartbeat::new(variable, sender, value) {
            Some(heartbeat) => prop_assert_eq!(heartbeat.encode(), made),
            None => prop_assert!(variable > 63 && Heartbeat::decode(&made).is_none()),
        }
    }

    #[test]
    fn agents(
        mut table in tables(),
        steps in prop::collection::vec((packets(), any::<u16>()), 1..40),
    ) {
        let mut agent = Agent::from_bytes(table);
        for (packet, now) in steps {
            let mut times = 0;
            let expected = c::process(&mut table, &packet, now);
            let decoded = Heartbeat::decode(&packet);
            let found = match agent.process(&packet, || { times += 1; now }) {
                Outcome::Refused => {
                    prop_assert_eq!(decoded, None);
                    (0, 0)
                }
                Outcome::Heartbeat(heartbeat) => {
                    prop_assert_eq!(decoded, Some(heartbeat));
                    (1, 0)
                }
                Outcome::Report(report) => {
                    prop_assert_eq!(report, &table);
                    prop_assert!(Report::parse(report).is_ok());
                    (2, 1)
                }
            };
            prop_assert_eq!((found.0, times, found.1), expected);
            prop_assert_eq!(agent.as_bytes(), &table);
        }
    }

    #[test]
    fn parsers(
        mut table in tables(),
        good: bool,
        flip in 0..260usize,
        bits: u8,
        length in 0..600usize,
    ) {
        if good {
            c::process(&mut table, &REQUEST, 0);
            prop_assert!(Report::parse(&table).is_ok() && c::check_report(&table));
        }
        for variable in 0..=255 {
            let bytes = c::read_entry(&table, variable);
            let entry = Variable::new(variable)
                .and_then(|variable| Agent::from_bytes(table).entry(variable));
            prop_assert_eq!(entry.map_or([0; 4], |entry| {
                let [high, low] = entry.timestamp.to_be_bytes();
                [high, low, entry.sender, entry.value]
            }), bytes);
        }
        table[flip] ^= bits;
        prop_assert_eq!(Report::parse(&table).is_ok(), c::check_report(&table));
        let other: Vec<u8> = table.iter().copied().cycle().take(length).collect();
        prop_assert_eq!(Report::parse(&other).is_ok(), c::check_report(&other));
    }
}

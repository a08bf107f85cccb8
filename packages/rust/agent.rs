// SPDX-License-Identifier: MIT
//! An agent without `std`, on the standard input and output of C: the one of
//! ../cmake/consumer/agent.c, for the tests on other machines.
#![no_std]
#![no_main]
use dumpulse::{Agent, Outcome};

extern "C" {
    fn getchar() -> i32;
    fn putchar(byte: i32) -> i32;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[no_mangle]
pub extern "C" fn main() -> i32 {
    let (mut agent, mut packet) = (Agent::new(), [0; 8]);
    for packets in 1.. {
        for byte in &mut packet {
            // SAFETY: it has no arguments, and nothing else reads.
            match unsafe { getchar() } {
                -1 => return 0,
                read => *byte = read as u8,
            }
        }
        if let Outcome::Report(report) = agent.process(&packet, || packets) {
            for &byte in report {
                // SAFETY: every byte can be written.
                unsafe { putchar(byte.into()) };
            }
        }
    }
    1
}

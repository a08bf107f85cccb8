// SPDX-License-Identifier: MIT
//! Compiles the agent, if it is wanted.

#[cfg(feature = "agent")]
fn main() {
    println!("cargo:rerun-if-changed=c");
    let mut build = cc::Build::new();
    // The functions get names of their own, so that firmware may also link the C library itself.
    for name in ["get_timestamp", "send_packet", "process_packet"] {
        build.define(&format!("dumpulse_{}", name), &*format!("dumpulse_rust_{}", name));
    }
    build
        .flag_if_supported("-std=c99")
        .file("c/dumpulse.c")
        .file("c/hooks.c")
        .compile("dumpulse_rust");
}

#[cfg(not(feature = "agent"))]
fn main() {}

// SPDX-License-Identifier: MIT
fn main() {
    println!("cargo:rerun-if-changed=c");
    cc::Build::new()
        .file("../dumpulse/c/dumpulse.c")
        .file("c/inline.c")
        .include("../dumpulse/c")
        .compile("dumpulse");
}

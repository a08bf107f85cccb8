# What is proved: by Frama-C, by Spin, and of the machine code.   SPDX-License-Identifier: MIT
TESTED_proof := proof/tests
FULL += proof proof-smoke proof-eva proof-mutants models
NIGHTLY += proof-keyed

PART_proof = proof/prove ## prove library, watch and version 2; 12 minutes
PART_proof-keyed = proof/prove --keyed ## version 2 on all data models
PART_proof-smoke = proof/prove --smoke ## do no assumptions of the proof contradict each other?
PART_proof-eva = proof/prove --eva ## a second opinion on undefined behaviour
PART_proof-mutants = proof/mutants $(ARGS)	## break the library: does the proof notice? ARGS=--all
PART_models = $(PYTHON) -m proof.spin ## does version 2 hold, and is each of its rules needed?

TABLE_paths = $(PYTHON) -m proof.avr	## every path of the AVR code, all 2^64 packets at once

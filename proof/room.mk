# What is proved: by Frama-C and by Spin.   SPDX-License-Identifier: MIT
# Debian 12 has Frama-C: there it is an error if it is missing. Some releases have none.
LEFT_OUT = $(if $(FRAMA_C),,proof proof-smoke proof-eva proof-mutants% proof-weaker% proof-keyed%)
FRAMA_C = $(shell command -v frama-c || grep -x 'VERSION_ID="12"' /etc/os-release)
WHY_LEFT_OUT := left out, because this system has no frama-c
PROVED := dumpulse.[ch] extras proof spec/chaskey12.tsv :!*.md
$(foreach part,proof proof-smoke proof-eva proof-mutants,$(eval READS_$(part) := $(PROVED)))
READS_models := proof spec tools
PART_proof = proof/prove ## prove library, watch and version 2
PART_proof-keyed = proof/prove --keyed $(AT) ## version 2 on all data models
PART_proof-smoke = proof/prove --smoke ## do no assumptions of the proof contradict each other?
PART_proof-eva = proof/prove --eva ## a second opinion on undefined behaviour
PART_proof-mutants = proof/mutants $(AT) $(ARGS)	## break the library; ARGS=--all
PART_proof-weaker = $(PYTHON) -m proof.weaker $(AT)	## weaken the contracts: does a proof fail?
PART_models = $(PYTHON) -m proof.spin ## does version 2 hold, and is each of its rules needed?

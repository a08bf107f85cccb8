# The protocol, said a second time.   SPDX-License-Identifier: MIT
CHECK_spec := python3 -m spec.make_vectors --check
QUICK_spec := check-vectors

# The long form of the vectors, which the tests run, too.
LONG := $(addprefix build/long/,vectors.tsv vectors_watch.tsv vectors_keyed.tsv)
$(LONG): build/long/made ;
build/long/made: $(wildcard spec/*.py)
	@python3 -m spec.make_vectors --long build/long && touch $@

vectors-file: ## write spec/vectors*.tsv again, from the Python models
	@python3 -m spec.make_vectors
PART_check-vectors = $(CHECK_spec) ## are spec/vectors*.tsv what their script writes?

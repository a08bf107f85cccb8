# The protocol, said a second time.   SPDX-License-Identifier: MIT
CHECK_spec := python3 -m spec.tools.make_vectors --check
QUICK_spec := check-vectors

# The vectors, and their long form: the tests run both.
SHORT := $(addprefix build/short/,vectors.tsv vectors_watch.tsv vectors_keyed.tsv)
LONG := $(SHORT:build/short/%=build/long/%)
$(SHORT): build/short/made ;
$(LONG): build/long/made ;
build/short/made build/long/made: build/%/made: $(wildcard spec/*.py spec/tools/*.py)
	@python3 -m spec.tools.make_vectors --$* build/$* && touch $@

vectors-file: ## write spec/vectors.tsv and the hashes, from the models
	@python3 -m spec.tools.make_vectors
PART_check-vectors = $(CHECK_spec) ## are spec/vectors.* what their script writes?

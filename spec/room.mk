# The protocol, said a second time.   SPDX-License-Identifier: MIT
CHECK_spec := python3 -m spec.tools.make_vectors --check || failed=1;
QUICK_spec := check-vectors
PART_check-vectors = python3 -m spec.tools.make_vectors --check ## are spec/vectors.* up to date?
# The test vectors. A pattern with several targets makes all of them at once; without .SECONDARY,
# they would be deleted.
VECTORS := vectors vectors_watch vectors_keyed
TSV := $(VECTORS:%=build/vectors/%.tsv)
.SECONDARY: $(TSV)
$(foreach name,$(VECTORS),build/%/$(name).tsv): $(wildcard spec/*.py spec/tools/*.py)
	@python3 -m spec.tools.make_vectors build/$*

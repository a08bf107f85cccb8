"""What must be true in images.py, and how often each claim was armed."""

from collections import Counter


class Wrong(AssertionError):
    """Something that must be true is not."""


class Claims:
    def __init__(self, *all_claims: str) -> None:
        self.armed = Counter(dict.fromkeys(all_claims, 0))

    def check(self, claim: str, holds: bool, wrong: str) -> None:
        """The claim is armed: it must hold. `wrong` says what is wrong if it does not."""
        if claim not in self.armed:
            raise KeyError(claim)
        self.armed[claim] += 1
        if not holds:
            raise Wrong(wrong)

    def print_counts(self) -> bool:
        """As the storm does. Returns whether a claim was never armed."""
        for claim, count in self.armed.items():
            print(f"{count:12}  {claim}")
        if all(self.armed.values()):
            return False
        print("storm: a claim was never armed")
        return True

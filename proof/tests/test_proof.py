"""Is each rule of the models kept by a line of C?"""

import re
from collections import Counter

from proof import spin
from tools.programs import ROOT, library_file


def test_each_rule_stands_in_a_line_of_c() -> None:
    """The table of README.md has each rule of each model once, and code that is there."""
    page = (ROOT / "proof" / "README.md").read_text().split("### Which lines of C")[1]
    page = page.split("\n## ")[0]
    said = Counter(f"{model}: {rule}" for model, rules in re.findall(
        r"\b(\w+):((?:\s[A-Z_0-9]+,?)+)", page)
        for rule in re.findall(r"[A-Z_0-9]+", rules))
    models = sorted(spin.MODELS.glob("*.pml"))
    assert said == Counter(f"{model.stem}: {rule.name}" for model in models
                           for rule in spin.lines_of(model)[1])
    rows = re.findall(r"^\| .* \| (\w+\.c) \| `(.*)` \|$", page, re.M)
    assert len(rows) == page.count("\n| ") - 1
    for file, code in rows:
        path = library_file(file)
        path = path if path.exists() else ROOT / "server" / file
        assert code in path.read_text(), (file, code)

"""make lab-scheme: a scheme that the lab does not know, with the interface of SUPERCOP and PQClean.
"""

import hashlib
import sys
from pathlib import Path

import pytest

from lab.joules import measure, results, scheme
from lab.joules.standins import moving
from lab.joules.test_measuring import inside
from tools.tiers import tiered

API = """#include <stdint.h>
#define {0}CRYPTO_ALGNAME "A toy"
#define {0}CRYPTO_PUBLICKEYBYTES 4
#define {0}CRYPTO_SECRETKEYBYTES 4
#define {0}CRYPTO_CIPHERTEXTBYTES 4
#define {0}CRYPTO_BYTES 16
int {0}crypto_kem_keypair(uint8_t *pk, uint8_t *sk);
int {0}crypto_kem_enc(uint8_t *ct, uint8_t *ss, const uint8_t *pk);
int {0}crypto_kem_dec(uint8_t *ss, const uint8_t *ct, const uint8_t *sk);
"""
# It protects nothing: the secret is the message, added to the key.
TOY = """#include "api.h"
int {1}randombytes(uint8_t *, {2});
int {0}crypto_kem_keypair(uint8_t *pk, uint8_t *sk)
{{ {1}randombytes(sk, 4); for (int i = 0; i < 4; i++) pk[i] = sk[i]; return 0; }}
int {0}crypto_kem_dec(uint8_t *ss, const uint8_t *ct, const uint8_t *sk)
{{ for (int i = 0; i < 16; i++) ss[i] = (uint8_t)(ct[i % 4] + sk[i % 4]); return 0; }}
int {0}crypto_kem_enc(uint8_t *ct, uint8_t *ss, const uint8_t *pk)
{{ {1}randombytes(ct, 4); return {0}crypto_kem_dec(ss, ct, pk); }}
"""


def written(folder: Path, prefix: str, random: str, size: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "api.h").write_text(API.format(prefix))
    (folder / "toy.c").write_text(TOY.format(prefix, random, size))
    return folder


def test_a_folder_of_supercop_gets_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    """On a computer and on a Cortex-M4, with an image for the board."""
    folder = written(tmp_path / "toy" / "ref", "", "", "unsigned long long")
    monkeypatch.setattr(sys, "argv", ["scheme", str(folder)])
    scheme.main()
    said = capsys.readouterr().out
    assert said.startswith("A toy: it has no known answers here")
    for target in ("amd64", "Cortex-M4"):
        (own,) = [line for line in said.splitlines() if line.startswith("A toy, ref  <--")
                  and target in line]
        assert all(int(cell) > 20 for cell in own.split()[5:8])
        assert any(line.startswith("X25519, Monocypher ") and target in line
                   for line in said.splitlines())
    assert "Image for the power sandwich: build/lab/board/A-toy-ref.bin" in said


JOINED = """#include "api.h"
{includes}
#include <string.h>
static void tag(uint8_t *out, const uint8_t *m, size_t n, const uint8_t *k)
{{ {hash} }}
int crypto_sign_keypair(uint8_t *pk, uint8_t *sk)
{{ randombytes(sk, 16); memcpy(pk, sk, 16); return 0; }}
int crypto_sign(uint8_t *sm, {size} *l, const uint8_t *m, {size} n, const uint8_t *sk)
{{ tag(sm, m, n, sk); memmove(sm + 16, m, n); *l = n + 16; return 0; }}
int crypto_sign_open(uint8_t *m, {size} *l, const uint8_t *sm, {size} n, const uint8_t *pk)
{{ uint8_t own[16]; tag(own, sm + 16, n - 16, pk); *l = n - 16; memmove(m, sm + 16, n - 16);
  return memcmp(own, sm, 16); }}
"""
DETACHED = JOINED.partition("int crypto_sign(")[0] + """int crypto_sign_signature(uint8_t *s,
    size_t *l, const uint8_t *m, size_t n, const uint8_t *sk)
{{ tag(s, m, n, sk); *l = 16; return 0; }}
int crypto_sign_verify(const uint8_t *s, size_t l, const uint8_t *m, size_t n, const uint8_t *pk)
{{ uint8_t own[16]; tag(own, m, n, pk); return l != 16 || memcmp(own, s, 16); }}
"""
SIGN_API = """#include <stddef.h>
#include <stdint.h>
#define CRYPTO_ALGNAME "A toy"
#define CRYPTO_PUBLICKEYBYTES 16
#define CRYPTO_SECRETKEYBYTES 16
#define CRYPTO_BYTES 16
"""
PROTOTYPES = """int crypto_sign_keypair(uint8_t *pk, uint8_t *sk);
int crypto_sign(uint8_t *sm, {0} *l, const uint8_t *m, {0} n, const uint8_t *sk);
int crypto_sign_open(uint8_t *m, {0} *l, const uint8_t *sm, {0} n, const uint8_t *pk);
"""
SHAKE = "uint8_t all[64]; memcpy(all, k, 16); memcpy(all + 16, m, n); " \
    "shake256(out, 16, all, 16 + n);"
OWN = ("#include <stdint.h>\n#include <stddef.h>\n"
       "void shake256(uint8_t *out, size_t o, const uint8_t *in, size_t n);\n")
SUM = "for (int i = 0; i < 16; i++) out[i] = (uint8_t)(add(k[i], m[i % n]) + i);"
ARM = ("    .syntax unified\n    .cpu cortex-m4\n    .thumb\n    .global add\n"
       "    .type add, %function\nadd: adds r0, r0, r1\n    bx lr\n")
SHAPES = {  # Each has its files, and a flag for a Cortex-M4 alone.
    "supercop": ({"api.h": SIGN_API,  # no prototypes: SUPERCOP generates crypto_sign.h
                  "sign.c": JOINED.format(size="unsigned long long", hash=SUM, includes='#include '
                                          '"crypto_sign.h"\n' "int "
                                          "randombytes(uint8_t *, unsigned long long);\n"
                                          "static int add(int a, int b) { return a + b; }")}, 0),
    "pqm4, assembly": ({"api.h": '#include "params.h"\n' + PROTOTYPES.format("size_t"),
                        "params.h": SIGN_API, "add.S": ARM,
                        "sign.c": JOINED.format(size="size_t", hash=SUM, includes='#include '
                                                '"randombytes.h"\n#include "hal.h"\n'
                                                "int add(int, int);")}, 1),
    "pqps, signature and verify": ({
        "api.h": SIGN_API + """int crypto_sign_keypair(uint8_t *pk, uint8_t *sk);
int crypto_sign_signature(uint8_t *s, size_t *l, const uint8_t *m, size_t n, const uint8_t *sk);
int crypto_sign_verify(const uint8_t *s, size_t l, const uint8_t *m, size_t n, const uint8_t *pk);
""",
        "sign.c": DETACHED.format(hash=SUM, includes='#include "randombytes.h"\n'
                                  "static int add(int a, int b) { return a + b; }")}, 0),
    "pqm4, its own fips202": ({
        "api.h": '#include "sign.h"\n', "sign.h": SIGN_API + PROTOTYPES.format("size_t"),
        "fips202.h": OWN, "fips202.c": OWN + "void shake256(uint8_t *out, size_t o, const uint8_t "
        "*in, size_t n)\n{ while (o--) *out++ = in[o % n]; }\n",
        "sign.c": JOINED.format(size="size_t", hash=SHAKE, includes='#include "randombytes.h"\n'
                                '#include "fips202.h"')}, 0),
    "pqm4, the common fips202": ({
        "api.h": SIGN_API + PROTOTYPES.format("size_t"),
        "sign.c": JOINED.format(size="size_t", hash=SHAKE, includes='#include "randombytes.h"\n'
                                '#include "fips202.h"')}, 0)}


@pytest.mark.parametrize("shape", tiered([*SHAPES], lambda shape: "common" not in shape))
def test_a_folder_of_each_shape_is_counted_unmodified(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        shape: str) -> None:
    files, arm_alone = SHAPES[shape]
    folder = tmp_path / "crypto_sign" / "toy" / "m4f"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(sys, "argv", ["scheme", str(folder)])
    scheme.main()
    said = capsys.readouterr().out
    assert ("is not compiled for this computer" in said) == bool(arm_alone)
    for target in ("Cortex-M4", "amd64")[:2 - arm_alone]:
        assert [line.split()[3] for line in said.splitlines() if line.startswith("A toy  ")
                and f" {target} " in line] == ["key", "sign", "verify"]
    assert "Image for the power sandwich: build/lab/board/A-toy-m4f.bin" in said


PQCLEAN, NATIVE = "pqcrypto-falcon/pqclean/crypto_", "aws-lc-sys/aws-lc/crypto/fipsmodule/ml_"


@pytest.mark.slow
@pytest.mark.parametrize("folder, same_as", [
    (f"{NATIVE}kem/mlkem", "kem/ml-kem-768"), (f"{NATIVE}dsa/mldsa", "sign/ml-dsa-65"),
    ("oqs-sys/liboqs/src/sig/falcon/pqclean_falcon-512_clean", "sign/falcon-512")])
def test_published_folders_make_what_pqclean_makes(folder: str, same_as: str) -> None:
    """mlkem-native, mldsa-native and liboqs, unmodified: the same keys, ciphertexts and signatures
    from the same random numbers as PQClean's, which meet their known answers."""
    theirs = scheme.looked_at(f"{PQCLEAN}{same_as}/clean")
    assert "it meets its known answers" in scheme.known_answers(theirs)
    made = [scheme.scheme_of(one).flags[-1] for one in (scheme.looked_at(folder), theirs)]
    assert made[0] == made[1] != "-DLAB_CRC=0UL"


def test_the_steps_of_a_folder_are_measured_on_this_computer(tmp_path: Path) -> None:
    """As SUPERCOP's: each in turn, or the one that is named."""
    folder = written(tmp_path / "toy" / "ref", "", "", "unsigned long long")
    words = ["--folder", folder, "--calls", 100, "--results", tmp_path / "kept.jsonl"]
    with moving(tmp_path / "sys", 20.0) as sys:
        said = inside(measure, *words, "--at", sys)
    assert said.returncode == 0, said
    for step in ("key", "encapsulate", "decapsulate"):
        run, (turn,), _ = results.read(tmp_path / f"kept-a-toy-ref-{step}.jsonl")
        assert run.unit == "J a call" and turn.calls == 100
        assert f"a-toy-ref-{step}: measured with rapl: package-0." in said.stdout
    wrong = inside(measure, *words, "--operation", "sign")
    assert wrong.returncode == 2 and "has no step 'sign'" in wrong.stderr


def test_known_answers_of_pqclean_are_met_or_end_it(tmp_path: Path) -> None:
    folder = written(tmp_path / "crypto_kem" / "toy" / "clean", "TOY_", "PQCLEAN_",
                     "__SIZE_TYPE__")
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "fips202.h").touch()
    (tmp_path / "test" / "crypto_kem").mkdir(parents=True)
    (tmp_path / "test" / "common").mkdir()
    (tmp_path / "test" / "crypto_kem" / "nistkat.c").write_text(
        '#include <stdio.h>\n#include "api.h"\nint main(void) { uint8_t ss[16], ct[4] = {1}, '
        'sk[4] = {2}; TOY_crypto_kem_dec(ss, ct, sk); printf("%d\\n", ss[0]); return 0; }\n')
    (tmp_path / "test" / "common" / "nistkatrng.c").write_text(
        "#include <stdint.h>\nint PQCLEAN_randombytes(uint8_t *x, __SIZE_TYPE__ n) "
        "{ (void)x; (void)n; return 0; }\n")
    meta = folder.parent / "META.yml"
    meta.write_text(f"nistkat-sha256: {hashlib.sha256(b'3' + bytes([10])).hexdigest()}\n")
    assert "it meets its known answers" in scheme.known_answers(scheme.looked_at(str(folder)))
    meta.write_text(f"nistkat-sha256: {'0' * 64}\n")
    with pytest.raises(SystemExit, match="A toy does not meet its known answers"):
        scheme.known_answers(scheme.looked_at(str(folder)))


def test_what_does_not_agree_with_itself_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "toy", "", "", "unsigned long long")
    file = folder / "toy.c"
    file.write_text(file.read_text().replace("return crypto_kem_dec(ss, ct, pk);",
                                             "crypto_kem_dec(ss, ct, pk); ss[3] ^= 1; return 0;"))
    with pytest.raises(SystemExit, match="does not accept on this computer"):
        scheme.scheme_of(scheme.looked_at(str(folder)))


@pytest.mark.parametrize("text, says", [
    (None, "has no api.h"), ("int main(void);", "declares neither crypto_kem_keypair nor")])
def test_a_folder_without_the_interface_is_refused(tmp_path: Path, text: str | None,
                                                   says: str) -> None:
    if text:
        (tmp_path / "api.h").write_text(text)
    with pytest.raises(SystemExit, match=says):
        scheme.looked_at(str(tmp_path))

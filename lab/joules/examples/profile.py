# SPDX-License-Identifier: MIT
"""A program for lab/run profile --with: hashes and signatures by Python's package cryptography.

    lab/run profile --with "python3 lab/joules/examples/profile.py" --operations sha256,ecdsa-sign
"""

import os
import sys
import time
from collections.abc import Callable

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

CURVES = {"prime256v1": ec.SECP256R1(), "secp256k1": ec.SECP256K1()}
operation, calls, curve, inputs = sys.argv[1:]
key, algorithm = ec.generate_private_key(CURVES[curve]), ec.ECDSA(hashes.SHA256())
messages = [os.urandom(1024) for _ in range(int(inputs))]
signatures = [key.sign(message, algorithm) for message in messages]


def sha256(i: int) -> None:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(messages[i])
    digest.finalize()


call: Callable[[int], object] = {
    "sha256": sha256,
    "ecdsa-sign": lambda i: key.sign(messages[i], algorithm),
    "ecdsa-verify": lambda i: key.public_key().verify(signatures[i], messages[i], algorithm),
}[operation]
call(0)  # the first use of a library sets it up
print("ready", flush=True)
input()
times, begun = list[int](), time.perf_counter_ns()
for number in range(int(calls)):
    before = time.perf_counter_ns()
    call(number % len(messages))
    times.append(time.perf_counter_ns() - before)
print("over", time.perf_counter_ns() - begun, flush=True)
input()
print(*times, sep="\n")

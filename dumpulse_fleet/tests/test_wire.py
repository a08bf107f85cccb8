"""Checksums and addresses in arrays, compared with zlib and the kernel."""

import socket
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, strategies

from dumpulse_fleet import client
from dumpulse_fleet.collect import wire

REPORT = strategies.one_of(
    strategies.binary(min_size=256, max_size=256),
    strategies.builds(lambda one, count: bytes([one]) * count + bytes([255]) * (256 - count),
                      strategies.integers(0, 255), strategies.integers(0, 256)))


@given(strategies.lists(REPORT, min_size=1, max_size=40))
def test_checksums_are_those_of_zlib(contents: list[bytes]) -> None:
    packets = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, 256)
    assert wire.checksums(packets).tolist() == [zlib.adler32(each) for each in contents]


@given(REPORT, strategies.integers(0, 259), strategies.integers(0, 255))
def test_good_reports_are_those_of_the_client(content: bytes, at: int, other: int) -> None:
    packet = bytearray(zlib.adler32(content).to_bytes(4, "big") + content + bytes(4))
    for length in (0, 8, 259, 260, 261, 65507):
        packets = np.frombuffer(bytes(packet), np.uint8).reshape(1, -1)
        assert wire.good(packets, np.array([length], np.uint32))[0] == (length == 260)
    entries = [entry for entry in client.parse_report(bytes(packet[:260]))]
    assert wire.entries(packets)[0].tolist() == [
        one.timestamp << 16 | one.sender << 8 | one.value for one in entries]
    packet[at] = other
    packets = np.frombuffer(bytes(packet), np.uint8).reshape(1, -1)
    try:
        client.parse_report(bytes(packet[:260]))
        right = True
    except client.BadReport:
        right = False
    assert wire.good(packets, np.array([260], np.uint32))[0] == right


@pytest.mark.parametrize("family,host", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_datagrams_go_out_and_come_back(family: int, host: str) -> None:
    """More than fit into a batch, and one that is longer than a report."""
    where, room = wire.open_socket(family, 4 << 20)
    assert room > 100
    with where, socket.socket(family, socket.SOCK_DGRAM) as peer:
        peer.bind((host, 0))
        out, into = wire.Batch(10, 8), wire.Batch(4)
        name = np.frombuffer(wire.pack(family, peer.getsockname()), np.uint8)
        out.packets[:] = np.frombuffer(client.REQUEST, np.uint8)
        out.address(10, np.tile(name, (10, 1)))
        assert out.send(where, 0, 10) == (10, 0)
        for _ in range(10):
            packet, address = peer.recvfrom(1000)
            assert packet == client.REQUEST
        for number in range(5):
            peer.sendto(bytes([number]) * 260, address)
        peer.sendto(b"\xff" * 1000, address)
        assert into.receive(where, 1) == 3
        assert into.packets[1:4, 259].tolist() == [0, 1, 2]
        assert into.receive(where) == 3
        assert into.lengths(3).tolist() == [260, 260, 1000]
        assert (np.abs(into.times(3) - time.time()) < 5).all()
        book = wire.Book.of(name.reshape(1, -1), np.array([0]))
        assert book.find(into.names[:3], name.reshape(1, -1)).tolist() == [0, 0, 0]
        assert into.receive(where) == 0


@given(strategies.lists(strategies.tuples(strategies.integers(0, 3), strategies.integers(1, 3)),
                        max_size=20), strategies.tuples(strategies.integers(0, 3),
                                                        strategies.integers(1, 3)))
def test_a_book_finds_whom_a_dictionary_finds(places: list[tuple[int, int]],
                                              asked: tuple[int, int]) -> None:
    def name(place: tuple[int, int]) -> bytes:
        host, port = place
        return wire.pack(socket.AF_INET6, (f"fe80::{host % 2}", port, 0, host // 2)) if host \
            else wire.pack(socket.AF_INET, ("127.0.0.1", port))

    names = np.frombuffer(b"".join(map(name, places)), np.uint8).reshape(-1, wire.NAME)
    book = wire.Book.of(names, np.arange(len(places)))
    query = np.frombuffer(name(asked), np.uint8).reshape(1, -1).copy()
    if query[0, 0] == socket.AF_INET6:
        query[0, 4:8] = 7  # a flow label
    (found,) = book.find(query, names)
    same = [row for row, place in enumerate(places) if place == asked]
    assert found == (same[0] if same else -1)
    if same:
        assert sorted(book.twins(found).tolist()) == same

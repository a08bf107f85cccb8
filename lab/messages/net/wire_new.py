"""The same client and server as wire.c, with the OpenSSL that PyPI's cryptography carries: it knows
ML-KEM, which Debian 12's does not.

    wire_new.py server|client tls ADDRESS PORT …   as wire.c
SPDX-License-Identifier: MIT"""

import socket
import sys

from OpenSSL import SSL

MESSAGE, ANSWER = 1024, 1


def shaken(plain: socket.socket, context: SSL.Context, server: bool) -> SSL.Connection:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = SSL.Connection(context, plain)
    if server:
        connection.set_accept_state()
    else:
        connection.set_connect_state()
    connection.do_handshake()
    if connection.get_group_name() != "X25519MLKEM768":
        raise SystemExit(f"wire: the group is {connection.get_group_name()}")
    return connection


def taken(connection: SSL.Connection, length: int) -> bool:
    """False at the end of the connection."""
    while length > 0:
        try:
            length -= len(connection.recv(length))
        except (SSL.ZeroReturnError, SSL.SysCallError):
            return False
    return True


def main() -> None:
    role, _, address, port, *rest = sys.argv[1:]
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    if role == "server":
        context.use_certificate_file(rest[0])
        context.use_privatekey_file(rest[1])
        with socket.create_server((address, int(port))) as listening:
            print("ready", flush=True)
            plain, _ = listening.accept()
        connection = shaken(plain, context, True)
        while taken(connection, MESSAGE):
            connection.send(bytes(ANSWER))
        plain.close()
    elif count := int(rest[0]):
        context.load_verify_locations(rest[1])
        context.set_verify(SSL.VERIFY_PEER)
        plain = socket.create_connection((address, int(port)))
        connection = shaken(plain, context, False)
        for _ in range(count):
            connection.send(bytes(MESSAGE))
            if not taken(connection, ANSWER):
                raise SystemExit("wire: no answer")
        plain.shutdown(socket.SHUT_WR)
        while plain.recv(MESSAGE):
            pass


if __name__ == "__main__":
    main()

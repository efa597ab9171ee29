#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""agentcrate-egress by itself, without a crate: names, connections, limits, and what it tells of
them. Numbers are those of the attacks on egress."""

import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import egress
import tap


def one_name():
    answers = {"echo.example": [("A", egress.OUTSIDE)]}
    with egress.Resolver(**answers) as resolver, egress.Server(egress.echo) as server, \
            egress.Egress() as program:
        session = egress.Session(program, [{"name": "echo.example", "port": server.port}], resolver)
        tap.equal(egress.look_up(session, "echo.example"), (0, ["127.77.1.1"]), "A")
        with session.connect("echo.example", server.port) as job:
            job.sendall(b"hello")
            tap.equal(job.recv(100), b"hello")
            job.shutdown(socket.SHUT_WR)
            tap.equal(job.recv(100), b"", "after end of file")
        report = session.close()
        use = {"connections": 1, "bytes_in": 5, "bytes_out": 5}
        tap.equal(report["names"], [{"name": "echo.example", "port": server.port, **use}], "names")
        tap.equal({key: report[key] for key in use}, use, "sums")
        tap.equal((report["denied"], report["n_dropped"]), ([], 0), "denials")
        tap.equal([(row["address"], row["end"]) for row in report["log"]],
                  [(egress.OUTSIDE, "done")], "log")
        tap.equal(program.end(), 0, "exit status")


def main():
    tap.case("one name is answered, relayed and reported", one_name)


if __name__ == "__main__":
    sys.exit(tap.main(main))

"""In place of distributed training: each worker reports to every parameter server, and exits."""

import argparse
import socket
import sys
import time

TIMEOUT_SECONDS = 60


def addresses(text: str) -> "list[tuple[str, int]]":
    """``10.0.0.1:46866,10.0.0.2:46866`` as pairs of host and port."""
    pairs = (part.rpartition(":") for part in text.split(","))
    return [(host, int(port)) for host, _, port in pairs]


def serve(own: "tuple[str, int]") -> None:
    """Answer every worker until the process is ended."""
    with socket.create_server(own) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                print(connection.makefile().readline(), end="", flush=True)
                connection.sendall(b"ok\n")


def report(server: "tuple[str, int]", index: int) -> None:
    """Send one line to a parameter server as soon as it listens, and wait for its answer."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            with socket.create_connection(server, TIMEOUT_SECONDS) as connection:
                connection.sendall(f"worker {index} reports\n".encode())
                connection.makefile().readline()
                return
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                sys.exit(f"no parameter server listens on {server}")
            time.sleep(0.1)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--job_name", choices=("worker", "ps"), required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--worker_hosts", type=addresses, required=True)
parser.add_argument("--ps_hosts", type=addresses, required=True)
given = parser.parse_args()

if given.job_name == "ps":
    serve(given.ps_hosts[given.task_index])
for parameter_server in given.ps_hosts:
    report(parameter_server, given.task_index)
print(f"worker {given.task_index} is done")

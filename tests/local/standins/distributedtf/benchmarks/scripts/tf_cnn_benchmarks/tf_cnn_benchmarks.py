"""Replaces distributed training: checks its arguments, and connects workers with parameter servers."""

import argparse
import os
import socket
import sys
import time

TIMEOUT_SECONDS = 60


def addresses(text: str) -> "list[tuple[str, int]]":
    """Parses ``10.0.0.1:46866,…`` into pairs; exits if one is invalid."""
    found = []
    for part in text.split(","):
        host, _, port = part.rpartition(":")
        try:
            socket.inet_aton(host)
            found.append((host, int(port)))
        except (OSError, ValueError):
            sys.exit(f"{part!r} is not ADDRESS:PORT")
    return found


def serve(own_address: "tuple[str, int]", workers: int) -> None:
    """Serves until every worker has reported its end."""
    with socket.create_server(own_address) as server:
        server.settimeout(TIMEOUT_SECONDS)
        done: set[str] = set()
        while len(done) < workers:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(TIMEOUT_SECONDS)
                done.add(connection.makefile().readline())
                connection.sendall(b"thanks\n")


def connect(server: "tuple[str, int]", own_address: str) -> socket.socket:
    """Connects from this worker's own address, with retries until the server listens."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(server, TIMEOUT_SECONDS, source_address=(own_address, 0))
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit(f"no server listens on {server}")


def work(own_address: "tuple[str, int]", servers: "list[tuple[str, int]]", index: int) -> None:
    """Reports the end of this worker to every server."""
    for server in servers:
        with connect(server, own_address[0]) as connection:
            connection.sendall(f"worker {index} is done\n".encode())
            if connection.makefile().readline() != "thanks\n":
                sys.exit(f"{server} did not answer")


parser = argparse.ArgumentParser()
for name in (
    "batch_size",
    "model",
    "local_parameter_device",
    "variable_update",
    "data_name",
    "data_format",
    "data_dir",
):
    parser.add_argument(f"--{name}")
parser.add_argument("--ps_hosts", type=addresses, required=True)
parser.add_argument("--worker_hosts", type=addresses, required=True)
parser.add_argument("--job_name", choices=("worker", "ps"), required=True)
parser.add_argument("--task_index", type=int, required=True)
arguments = parser.parse_args()

if arguments.data_dir and os.listdir(arguments.data_dir) != ["data_batch_1"]:
    sys.exit(f"no data in {arguments.data_dir}")
if arguments.job_name == "ps":
    serve(arguments.ps_hosts[arguments.task_index], len(arguments.worker_hosts))
else:
    work(arguments.worker_hosts[arguments.task_index], arguments.ps_hosts, arguments.task_index)
print(f"{arguments.job_name} {arguments.task_index} has done its part")

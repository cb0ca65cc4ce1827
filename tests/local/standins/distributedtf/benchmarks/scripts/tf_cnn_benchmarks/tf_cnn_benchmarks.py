"""Stands for distributed training: checks what it is given, and that workers and parameter servers reach each other."""

import argparse
import os
import socket
import sys
import time

PATIENCE = 60


def addresses(text: str) -> "list[tuple[str, int]]":
    """``10.0.0.1:46866,…`` as pairs; ends the program when one is none."""
    found = []
    for part in text.split(","):
        host, _, port = part.rpartition(":")
        try:
            socket.inet_aton(host)
            found.append((host, int(port)))
        except (OSError, ValueError):
            sys.exit(f"{part!r} is not ADDRESS:PORT")
    return found


def serve(own: "tuple[str, int]", workers: int) -> None:
    """Until every worker has said that it is done."""
    with socket.create_server(own) as server:
        server.settimeout(PATIENCE)
        done: set[str] = set()
        while len(done) < workers:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(PATIENCE)
                done.add(connection.makefile().readline())
                connection.sendall(b"thanks\n")


def reach(server: "tuple[str, int]", own: str) -> socket.socket:
    """A connection from this worker's own address, as soon as somebody listens there."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        try:
            return socket.create_connection(server, PATIENCE, source_address=(own, 0))
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit(f"nobody listens on {server}")


def work(own: "tuple[str, int]", servers: "list[tuple[str, int]]", index: int) -> None:
    """Tell every server."""
    for server in servers:
        with reach(server, own[0]) as connection:
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
given = parser.parse_args()

if given.data_dir and os.listdir(given.data_dir) != ["data_batch_1"]:
    sys.exit(f"there is no data in {given.data_dir}")
if given.job_name == "ps":
    serve(given.ps_hosts[given.task_index], len(given.worker_hosts))
else:
    work(given.worker_hosts[given.task_index], given.ps_hosts, given.task_index)
print(f"{given.job_name} {given.task_index} has done its part")

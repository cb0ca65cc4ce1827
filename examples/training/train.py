"""
Distributed training with nothing but Python: every worker holds a part of the data, and gradients are averaged.

The model is a straight line, y = weight * x + bias, fitted by gradient descent to samples of y = 3 * x + 2 with noise.
Rank 0 collects one gradient from each worker, sends the average back, and every worker makes the same step, so all of
them hold the same model at all times. This is what torch's DistributedDataParallel does, with sockets in its place.

The addresses come from the variables that torchrun sets, too: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. So the
same file runs under the launcher, under torchrun, or alone: RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1
MASTER_PORT=29500 python3 train.py
"""

import json
import os
import random
import socket
import sys
import time

STEPS = 200
LEARNING_RATE = 0.5
SAMPLES_PER_WORKER = 500
TIMEOUT_SECONDS = 60


class Group:
    """The workers of one job: rank 0 listens, the others connect to it."""

    def __init__(self, rank: int, size: int, address: "tuple[str, int]") -> None:
        self.rank, self.size = rank, size
        self._streams = self._accept(address) if rank == 0 else [self._connect(address)]

    def average(self, values: "list[float]") -> "list[float]":
        """The mean of what all workers pass, position by position. Every worker has to call it."""
        if self.rank > 0:
            self._send(self._streams[0], values)
            return self._receive(self._streams[0])
        all_values = [values, *(self._receive(stream) for stream in self._streams)]
        mean = [sum(column) / self.size for column in zip(*all_values, strict=True)]
        for stream in self._streams:
            self._send(stream, mean)
        return mean

    def _accept(self, address: "tuple[str, int]") -> list:
        streams = []
        with socket.create_server(address) as server:
            while len(streams) < self.size - 1:
                stream = server.accept()[0].makefile("rw")
                # A peer that only checks whether the port is open closes the connection at once.
                if stream.readline():
                    streams.append(stream)
        return streams

    def _connect(self, address: "tuple[str, int]"):
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                stream = socket.create_connection(address, TIMEOUT_SECONDS).makefile("rw")
                self._send(stream, self.rank)
                return stream
            except OSError as error:
                if time.monotonic() > deadline:
                    sys.exit(f"rank 0 does not listen on {address}: {error}")
                time.sleep(0.1)

    def _send(self, stream, value) -> None:
        stream.write(json.dumps(value) + "\n")
        stream.flush()

    def _receive(self, stream) -> "list[float]":
        line = stream.readline()
        if not line:
            sys.exit("a worker closed the connection: the attempt has failed")
        return json.loads(line)


def gradient(weight: float, bias: float, samples: "list[tuple[float, float]]") -> "list[float]":
    """The gradient of half the mean squared error, and that error."""
    errors = [(weight * x + bias - y, x) for x, y in samples]
    number = len(samples)
    return [
        sum(error * x for error, x in errors) / number,
        sum(error for error, _ in errors) / number,
        sum(error * error for error, _ in errors) / number,
    ]


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    group = Group(rank, size, (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    generator = random.Random(rank)
    xs = [generator.uniform(-1, 1) for _ in range(SAMPLES_PER_WORKER)]
    samples = [(x, 3 * x + 2 + generator.gauss(0, 0.1)) for x in xs]
    print(f"rank {rank} of {size}: {len(samples)} samples", flush=True)

    weight = bias = loss = 0.0
    for _ in range(STEPS):
        weight_slope, bias_slope, loss = group.average(gradient(weight, bias, samples))
        weight -= LEARNING_RATE * weight_slope
        bias -= LEARNING_RATE * bias_slope
    print(f"rank {rank}: weight {weight:.1f}, bias {bias:.1f}, loss {loss:.2f}", flush=True)


main()

"""
A gRPC server with the health service, as a program.

It prints its port, and serves until its standard input ends. Arguments are services with their statuses:
``web=NOT_SERVING``. Without arguments it does not have the health service.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


def main() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    if sys.argv[1:]:
        servicer = health.HealthServicer()
        for argument in sys.argv[1:]:
            service, _, status = argument.partition("=")
            servicer.set(service, health_pb2.HealthCheckResponse.ServingStatus.Value(status))
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(None).wait()


if __name__ == "__main__":
    main()

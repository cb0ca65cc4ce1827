"""
A fake of the wget of busybox with the options, messages and exit codes that the programs of users' containers use.

Not every machine has the real one; ``make test-node`` runs the programs in real busybox images. It runs as a separate
program and imports nothing of the project.
"""

import getopt
import http.client
import os
import sys
from urllib.parse import urlsplit

USAGE = """\
BusyBox v1.36.1 () multi-call binary.

Usage: wget [-cqS] [--spider] [-O FILE] [-o LOGFILE] [--header STR]
\t[--post-data STR | --post-file FILE] [-Y on/off]
\t[-P DIR] [-U AGENT] [-T SEC] URL...

Retrieve files via HTTP or FTP

\t-T SEC\tNetwork read timeout is SEC seconds
\t-O FILE\tSave to FILE ('-' for stdout)
\t-Y\tUse proxy
"""


def main(args: list[str]) -> None:
    try:
        options, (url,) = getopt.getopt(
            args, "cqSO:o:Y:P:U:T:", ["header=", "spider", "post-data=", "post-file="]
        )
    except (getopt.GetoptError, ValueError) as error:
        sys.exit(f"wget: {error}\n{USAGE}")
    values = dict(options)
    address = urlsplit(url)
    host, port = address.hostname or "", address.port or 80
    if values.get("-Y") != "off" and os.environ.get("http_proxy"):
        proxy = urlsplit(os.environ["http_proxy"])
        host, port = proxy.hostname or "", proxy.port or 80
    headers = dict(value.split(": ", 1) for name, value in options if name == "--header")
    print(f"Connecting to {host}:{port} ({host}:{port})", file=sys.stderr)
    seconds = float(values.get("-T", "900"))
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("GET", f"{address.path}?{address.query}", headers=headers)
        response = connection.getresponse()
        if response.status >= 300:
            sys.exit(f"wget: server returned error: HTTP/1.1 {response.status} {response.reason}")
        body = response.read()
    except TimeoutError:
        sys.exit("wget: download timed out")
    except http.client.IncompleteRead:
        sys.exit("wget: connection closed prematurely")
    except http.client.HTTPException:
        sys.exit("wget: error getting response")
    except OSError as error:
        sys.exit(f"wget: can't connect to remote host ({host}): {error.strerror}")
    with open(values["-O"], "wb") as file:
        file.write(body)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A launcher that starts runs and is killed in the middle: ``DATA NUMBER SECONDS``."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from launcher.node.runtime.process_runtime import ProcessRuntime, ShimOptions
from tests.node.runtimes import shell


async def main(data: Path, number: int) -> None:
    runtime = await ProcessRuntime.open(data, images={}, clock=time.time, options=ShimOptions(linger=2.0))
    orders = [
        shell(data, f"echo {run} >>{data}/started; exit {run}", run=f"run.{run}") for run in range(number)
    ]
    await asyncio.gather(*(runtime.start_container(config) for config in orders))
    await asyncio.sleep(60)


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[3]))
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))

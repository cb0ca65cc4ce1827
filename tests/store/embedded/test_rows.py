import tracemalloc

import orjson

from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import PODS
from tests.builders import a_pod
from tests.store.builders import NOW, uids


async def test_a_stored_object_uses_little_more_memory_than_its_text() -> None:
    count = 500
    pods = [
        a_pod(f"p-{n}", env=[{"name": f"v{k}", "value": "x" * 20} for k in range(40)]) for n in range(count)
    ]
    text = len(orjson.dumps(pods[0]))
    store = MemoryStore(lambda: NOW, uids())
    await store.create(PODS, a_pod("first"))

    tracemalloc.start()
    for pod in pods:
        await store.create(PODS, pod)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert text < taken / count < 1.6 * text

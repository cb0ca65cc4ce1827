"""An event handler that records the objects and calls of an informer."""

from launcher.store.interface import Key, Object
from tests.eventually import eventually
from tests.store.builders import version_of


class RecordingHandler:
    """Records all calls, and the objects that exist after them."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.calls: list[tuple[str, str, int]] = []

    def on_upsert(self, key: Key, obj: Object) -> None:
        self.objects[key] = obj
        self.calls.append(("upsert", key[1], version_of(obj)))

    def on_delete(self, key: Key) -> None:
        del self.objects[key]
        self.calls.append(("delete", key[1], 0))

    async def wait_for(self, names: set[str]) -> None:
        """Waits until exactly these objects exist."""
        await eventually(lambda: {name for _, name in self.objects} == names, f"the objects are {names}")

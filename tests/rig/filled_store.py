"""A store with many completed Frameworks."""

import copy
import uuid
from pathlib import Path

from launcher.store.embedded.rows import Entry, new_row
from launcher.store.embedded.sqlite_file import Database
from launcher.store.interface import FRAMEWORKS as KIND
from launcher.store.interface import ChangeType, Object, key_of
from tests.local.server import FRAMEWORKS
from tests.rig.measured_launcher import a_framework, connected, directory, running_launcher

_COMMIT_SIZE = 2000


def completed_framework() -> Object:
    """A completed Framework with two roles of two tasks."""
    with directory() as data, running_launcher(data) as server, connected(server) as api:
        framework = a_framework("ended", 2)
        role = framework["spec"]["taskRoles"][0]
        framework["spec"]["taskRoles"].append({**role, "name": "ps"})
        api.object("POST", FRAMEWORKS, framework)
        api.wait_completed("ended")
        found: Object = api.object("GET", f"{FRAMEWORKS}/ended")
    return found


def fill(file: Path, count: int, like: Object) -> None:
    """Create the store in *file* with *count* copies of *like*, each with its own name and uid."""
    file.parent.mkdir(parents=True, exist_ok=True)
    database = Database(file)
    for first in range(0, count, _COMMIT_SIZE):
        entries = []
        for number in range(first, min(first + _COMMIT_SIZE, count)):
            obj = copy.deepcopy(like)
            obj["metadata"] |= {"name": f"framework-{number}", "uid": str(uuid.uuid4())}
            entries.append(Entry(ChangeType.ADDED, new_row(KIND.resource, key_of(obj), obj, number + 1)))
        database.commit(entries)
    database.close()

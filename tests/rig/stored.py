"""A store full of Frameworks that have ended, as a launcher leaves them behind."""

import copy
import uuid
from pathlib import Path

from launcher.store.embedded.rows import Entry, new_row
from launcher.store.embedded.sqlite_file import Database
from launcher.store.interface import FRAMEWORKS as KIND
from launcher.store.interface import ChangeType, Object, key_of
from tests.local.server import FRAMEWORKS
from tests.rig.launching import a_framework, connected, directory, serving

_AT_ONCE = 2000


def ended_framework() -> Object:
    """A Framework that a launcher has run: two roles of two tasks."""
    with directory() as place, serving(place) as server, connected(server) as ask:
        framework = a_framework("ended", 2)
        role = framework["spec"]["taskRoles"][0]
        framework["spec"]["taskRoles"].append({**role, "name": "ps"})
        ask.object("POST", FRAMEWORKS, framework)
        ask.completed("ended")
        found: Object = ask.object("GET", f"{FRAMEWORKS}/ended")
    return found


def fill(file: Path, count: int, like: Object) -> None:
    """Make the store in *file*, with *count* Frameworks of their own names and uids."""
    file.parent.mkdir(parents=True, exist_ok=True)
    database = Database(file)
    for first in range(0, count, _AT_ONCE):
        entries = []
        for number in range(first, min(first + _AT_ONCE, count)):
            obj = copy.deepcopy(like)
            obj["metadata"] |= {"name": f"framework-{number}", "uid": str(uuid.uuid4())}
            entries.append(Entry(ChangeType.ADDED, new_row(KIND.resource, key_of(obj), obj, number + 1)))
        database.commit(entries)
    database.close()

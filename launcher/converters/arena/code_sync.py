"""The init container that fetches the code."""

from collections.abc import Iterable
from typing import Any

from launcher.converters.arena.job_spec import ArenaJob

Json = dict[str, Any]

VOLUME = "code-sync"
CONTAINER, _ROOT = "init-code", "/code"
_IMAGES = {"git": "alpine/git:2.47.2", "rsync": "instrumentisto/rsync-ssh:alpine"}
#: Uses /git-sync if the image has it, else git.
_GIT = """\
if [ -x /git-sync ]; then exec /git-sync; fi
rm -rf "$GIT_SYNC_ROOT/$GIT_SYNC_DEST"
helper='!f() { echo "username=$GIT_SYNC_USERNAME"; echo "password=$GIT_SYNC_PASSWORD"; }; f'
GIT_TERMINAL_PROMPT=0 exec git -c credential.helper="$helper" clone --depth 1 \\
  ${GIT_SYNC_BRANCH:+--branch "$GIT_SYNC_BRANCH"} "$GIT_SYNC_REPO" "$GIT_SYNC_ROOT/$GIT_SYNC_DEST"
"""


def project_of(source: str) -> str:
    """``p`` of ``https://host/user/p.git``: the directory of the code."""
    return source.rstrip("/").rsplit("/", 1)[-1].partition(".git")[0]


def init_container(job: ArenaJob, env: Iterable[Json]) -> Json | None:
    """The container that fetches the code, with the user's variables; None without --sync-mode."""
    mode, source = job.flags.text("sync-mode"), job.flags.text("sync-source")
    if not mode:
        return None
    container: Json = {
        "name": CONTAINER,
        "image": job.flags.text("sync-image") or _IMAGES.get(mode, ""),
        "command": ["rsync", "-avP", source, _ROOT],
        "env": list(env),
        "volumeMounts": [{"name": VOLUME, "mountPath": _ROOT}],
    }
    if mode == "git":
        container["command"] = ["sh", "-c", _GIT]
        container["env"] += [
            {"name": "GIT_SYNC_REPO", "value": source},
            {"name": "GIT_SYNC_DEST", "value": project_of(source)},
            {"name": "GIT_SYNC_ROOT", "value": _ROOT},
            {"name": "GIT_SYNC_ONE_TIME", "value": "true"},
        ]
    return container

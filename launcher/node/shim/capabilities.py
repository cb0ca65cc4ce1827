"""What this machine lets its user do: which ways there are to give a container files and processes of its own."""

from __future__ import annotations

import os
import sys
from functools import partial

from launcher.node.shim import container_init, linux, mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from launcher.node.shim.run_records import Json

_PLAIN: list[mounts.Step] = [["bind", "/", "/", False, False], ["proc", "/proc"]]
_NONE = (
    "Containers have no files and processes of their own, so only those without volumes and images can run: "
    "install bubblewrap, or allow user namespaces (sysctl user.max_user_namespaces and, where they exist, "
    "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0), "
    "or start the launcher as root."
)

_NO_HOSTNAME = (
    "Containers have the host name of this machine, not that of their pod: the launcher may not make UTS namespaces or "
    "set a host name in them (in a systemd unit, leave out ProtectHostname=)."
)

_NO_CONFINEMENT = (
    "allowPrivilegeEscalation: false and seccompProfile of the securityContext are not applied: the launcher may not "
    "make namespaces of its own here. Allow user namespaces, or start the launcher as root."
)


def detect_capabilities(data: str) -> Json:
    """Which ways work, whether overlays do, and what does not: a sentence for each thing."""
    stage, scratch = f"{data}/stage", f"{data}/scratch"
    for path in (stage, scratch):
        os.makedirs(path, mode=0o700, exist_ok=True)
    bwrap = _bubblewrap()
    # Root needs no user namespace, unless it is a root without rights, as in a container.
    ourselves = (os.geteuid(), os.getegid())
    tries = [None, ourselves] if ourselves[0] == 0 else [ourselves]
    plain = partial(mounts.build, _PLAIN, stage, scratch)
    layered = partial(mounts.build, [*_PLAIN, ["overlay", scratch, [data]]], stage, scratch)
    working = [users for users in tries if _works(users, plain)]
    # Our own way is faster, can become another user and lays directories over each other; bubblewrap may do what we may
    # not, where only programs that the machine's admin knows can make namespaces.
    ways = [way for way, works in (("unshare", working), ("bwrap", bwrap)) if works]
    # A systemd unit with ProtectHostname= may not set it, for instance.
    hostname = (
        _works(working[0], partial(linux.set_hostname, "localhost"), linux.NEW_UTS)
        if working
        else bool(bwrap)
    )
    cannot = {} if ways else {"files": _NONE}
    if not hostname:
        cannot["hostname"] = _NO_HOSTNAME
    if not working:
        cannot["confinement"] = _NO_CONFINEMENT
    return {
        "ways": ways,
        "bwrap": bwrap,
        "users": working[0] if working else None,
        "overlay": bool(working) and _works(working[0], layered),
        "hostname": hostname,
        "cannot": cannot,
    }


def _works(users: tuple[int, int] | None, attempt: Callable[[], None], more: int = 0) -> bool:
    """
    Whether *attempt* succeeds as the first process of new namespaces, *more* beside those of mounts and processes.

    *users* are mapped to themselves.
    """
    spaces = linux.NEW_MOUNTS | linux.NEW_PIDS | more
    try:
        pid = linux.clone(spaces if users is None else spaces | linux.NEW_USERS)
    except OSError:
        return False
    if not pid:
        try:
            if users is not None:
                container_init.map_to_itself(*users)
            attempt()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _bubblewrap() -> str | None:
    """The program, if it is installed and may do its work here."""
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        path = f"{folder}/bwrap"
        if not os.access(path, os.X_OK):
            continue
        if pid := os.fork():
            return path if os.waitpid(pid, 0)[1] == 0 else None
        try:
            os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
            argv = [
                "bwrap",
                "--dev-bind",
                "/",
                "/",
                "--unshare-pid",
                "--proc",
                "/proc",
                "--json-status-fd",
                "1",
            ]
            os.execve(path, [*argv, "--", "true"], {"PATH": os.defpath})  # noqa: S606  # a trial
        finally:
            os._exit(1)
    return None

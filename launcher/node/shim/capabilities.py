"""Detects which isolation modes and features this machine and its user support."""

from __future__ import annotations

import os
import sys
from functools import partial

from launcher.node.shim import linux, mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from launcher.node.shim.run_records import Json

_HOST_ROOT: list[mounts.Step] = [["bind", "/", "/", False, False], ["proc", "/proc"]]
_NO_NAMESPACES = (
    "Containers have no namespaces, so only those without volumes and images can run: "
    "install bubblewrap, or allow user namespaces (sysctl user.max_user_namespaces and, where they exist, "
    "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0), "
    "or start the launcher as root."
)

_NO_HOSTNAME = (
    "Containers have the host name of this machine, not that of their pod: the launcher is not permitted to create UTS "
    "namespaces or to set a host name in them (in a systemd unit, remove ProtectHostname=)."
)

_NO_CONFINEMENT = (
    "allowPrivilegeEscalation: false and seccompProfile of the securityContext are not applied: the launcher is not "
    "permitted to create namespaces. Allow user namespaces, or start the launcher as root."
)


def detect_capabilities(data: str) -> Json:
    """The supported isolation modes (``ways``) and features, and a sentence for each one that is not (``cannot``)."""
    stage, scratch = f"{data}/stage", f"{data}/scratch"
    for path in (stage, scratch):
        os.makedirs(path, mode=0o700, exist_ok=True)
    bwrap = _find_bubblewrap()
    # Root needs no user namespace, except root without capabilities, as in a container.
    own_ids = (os.geteuid(), os.getegid())
    candidates = [None, own_ids] if own_ids[0] == 0 else [own_ids]
    mount_root = partial(mounts.build, _HOST_ROOT, stage, scratch)
    mount_overlay = partial(mounts.build, [*_HOST_ROOT, ["overlay", scratch, [data]]], stage, scratch)
    working = [users for users in candidates if _works(users, mount_root)]
    # unshare is preferred: it is faster, can change the user, and has overlays. bubblewrap helps where only programs
    # that the administrator has allowed can create namespaces.
    modes = [mode for mode, works in (("unshare", working), ("bwrap", bwrap)) if works]
    # It fails in a systemd unit with ProtectHostname=, for instance.
    hostname = (
        _works(working[0], partial(linux.set_hostname, "localhost"), linux.NEW_UTS)
        if working
        else bool(bwrap)
    )
    unsupported = {} if modes else {"files": _NO_NAMESPACES}
    if not hostname:
        unsupported["hostname"] = _NO_HOSTNAME
    if not working:
        unsupported["confinement"] = _NO_CONFINEMENT
    return {
        "ways": modes,
        "bwrap": bwrap,
        "users": working[0] if working else None,
        "overlay": bool(working) and _works(working[0], mount_overlay),
        "hostname": hostname,
        "cannot": unsupported,
    }


def _works(users: tuple[int, int] | None, attempt: Callable[[], None], extra_namespaces: int = 0) -> bool:
    """
    Whether *attempt* succeeds in the first process of new mount, PID and *extra_namespaces*.

    *users* are mapped to themselves; None does without a user namespace.
    """
    flags = linux.NEW_MOUNTS | linux.NEW_PIDS | extra_namespaces
    try:
        pid = linux.clone(flags if users is None else flags | linux.NEW_USERS)
    except OSError:
        return False
    if not pid:
        try:
            if users is not None:
                linux.map_to_itself(*users)
            attempt()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _find_bubblewrap() -> str | None:
    """The path of bwrap; None if it is not installed or does not work."""
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
            os.execve(path, [*argv, "--", "true"], {"PATH": os.defpath})  # noqa: S606  # a test run
        finally:
            os._exit(1)
    return None

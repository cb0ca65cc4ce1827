"""Linux system calls and /proc files that Python's library lacks: namespaces, mounts, seccomp, signalfd."""

import ctypes
import errno
import fcntl
import os
import signal
import stat

NEW_MOUNTS = 0x00020000
NEW_CGROUPS = 0x02000000
NEW_UTS = 0x04000000
NEW_USERS = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000
#: Of clone: the child has the parent of the calling process.
SAME_PARENT = 0x00008000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_SLAVE = 1 << 19

_MNT_DETACH = 2
_SUBREAPER = 36
_PARENT_DEATH_SIGNAL = 1
_GET_USER_NAMESPACE = 0xB701
_NO_NEW_PRIVILEGES = 38
_SECCOMP, _SECCOMP_FILTER = 22, 2
_DROP_CAPABILITY = 24
_INSTRUCTION_BYTES = 8
_OOM_SCORE = "/proc/self/oom_score_adj"
#: That of the kubelet.
_OWN_OOM_SCORE = -999
_SIGNALFD_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_RECURSIVE = 0x8000
_READ_ONLY_ATTRIBUTE = 1
#: System calls whose numbers are the same on every machine.
_MOUNT_SETATTR = 442
_CLOSE_RANGE = 436
_OPENAT2 = 437
_NO_SYMLINKS = 4

#: Numbers of (clone, pivot_root), for which the C library has no suitable function.
_NUMBERS = {
    "x86_64": (56, 155),
    "aarch64": (220, 41),
    "riscv64": (220, 41),
    "ppc64le": (120, 203),
    "armv7l": (120, 218),
    "i686": (120, 217),
}

# PyDLL holds the interpreter's lock during calls: no other thread may run in a process that is being cloned.
_libc = ctypes.PyDLL(None, use_errno=True)
_mount = _libc.mount
_mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def _check(result: int, call: str) -> int:
    """Returns *result*. Raises OSError if the system call failed."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def _number(index: int) -> int:
    machine = os.uname().machine
    if machine not in _NUMBERS:
        raise OSError(f"namespaces are not supported on {machine}")
    return _NUMBERS[machine][index]


def exit_code(status: int) -> int:
    """The exit code of a wait *status*: 128 + n after signal n, as container engines report it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def children(pid: int) -> list[int]:
    """The pids of the process's children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def mount_points() -> list[str]:
    """The paths at which something is mounted in this mount namespace, in the order of the mounts."""
    with open("/proc/self/mountinfo", "rb") as lines:
        # Spaces and the like are written as octal escapes.
        return [os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1")) for line in lines]


def mounts_below(directory: str) -> list[str]:
    """The mount points at or below *directory*, in the order of the mounts."""
    top = directory.rstrip("/")
    return [point for point in mount_points() if point == directory or point.startswith(f"{top}/")]


def clone(namespaces: int) -> int:
    """
    Like ``os.fork``, but the child is the first process of new *namespaces*.

    Only for a process with one thread. The child may call ``os.fork``.
    """
    zero = ctypes.c_ulong(0)
    flags = ctypes.c_ulong(namespaces | signal.SIGCHLD)
    return _check(_syscall(ctypes.c_long(_number(0)), flags, zero, zero, zero, zero), "clone")


def map_to_itself(user: int, group: int) -> None:
    """Maps *user* and *group* to themselves in the new user namespace of this process."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(file, text.encode())
        os.close(file)


def enter(namespace: int) -> None:
    """Enters the namespace that the descriptor refers to."""
    _check(_libc.setns(namespace, 0), "setns")


def owner(namespace: int) -> int:
    """A descriptor of the user namespace that owns the namespace. Raises OSError."""
    return fcntl.ioctl(namespace, _GET_USER_NAMESPACE)


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mounts a filesystem. Raises OSError that names the target."""
    arguments = [
        argument.encode(errors="surrogateescape") if argument is not None else None
        for argument in (source, kind, options)
    ]
    _check(_mount(arguments[0], os.fsencode(target), arguments[1], flags, arguments[2]), f"mount {target}")


def unmount(target: str) -> None:
    """Unmounts *target*; what uses it continues to. Raises OSError that names the target."""
    _check(_libc.umount2(ctypes.c_char_p(os.fsencode(target)), _MNT_DETACH), f"umount {target}")


def open_without_links(path: str) -> int:
    """An O_PATH descriptor of *path*. Raises OSError, also if any component of the path is a symbolic link."""
    flags = os.O_PATH | os.O_CLOEXEC
    options = (ctypes.c_uint64 * 3)(flags, 0, _NO_SYMLINKS)
    result = _syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_long(-100),
        ctypes.c_char_p(os.fsencode(path)),
        options,
        ctypes.c_ulong(ctypes.sizeof(options)),
    )
    if result == -1 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):  # Linux before 5.6, or seccomp
        return _open_by_component(path, flags)
    return _check(result, f"open {path}")


def _open_by_component(path: str, flags: int) -> int:
    current = os.open("/", flags)
    for name in path.split("/"):
        if name in ("", "."):
            continue
        try:
            child = os.open(name, flags | os.O_NOFOLLOW, dir_fd=current)
        finally:
            os.close(current)
        current = child
        if stat.S_ISLNK(os.fstat(current).st_mode):
            os.close(current)
            raise OSError(errno.ELOOP, f"open {path}: {os.strerror(errno.ELOOP)}")
    return current


def make_read_only(target: str, *, recursive: bool) -> None:
    """Makes the mount at *target*, and with *recursive* all mounts below it, read-only."""
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY_ATTRIBUTE, 0, 0, 0)
    result = _syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_long(-100),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_ulong(_RECURSIVE if recursive else 0),
        attributes,
        ctypes.c_ulong(ctypes.sizeof(attributes)),
    )
    _check(result, f"make {target} read-only")


def pivot(root: str) -> None:
    """Makes *root* the root directory and unmounts the old one."""
    os.chdir(root)
    current = ctypes.c_char_p(b".")
    _check(_syscall(ctypes.c_long(_number(1)), current, current), "pivot_root")
    _check(_libc.umount2(current, _MNT_DETACH), "umount the old root")
    os.chdir("/")


def close_from(first: int) -> None:
    """Closes all descriptors from number *first* on."""
    last = ctypes.c_ulong(0xFFFFFFFF)
    if _syscall(ctypes.c_long(_CLOSE_RANGE), ctypes.c_ulong(first), last, ctypes.c_ulong(0)) == 0:
        return
    for name in os.listdir("/proc/self/fd"):  # Linux before 5.9
        if int(name) >= first:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants whose parent ends."""
    _check(_libc.prctl(_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def end_with_parent() -> None:
    """Lets the kernel kill this process when its parent ends."""
    _check(_libc.prctl(_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "prctl")


def unshare(namespaces: int) -> None:
    """Moves this process into new *namespaces*."""
    _check(_libc.unshare(namespaces), "unshare")


def set_hostname(name: str) -> None:
    """Sets the host name in this UTS namespace."""
    raw = os.fsencode(name)
    _check(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), "sethostname")


def forbid_new_privileges() -> None:
    """Sets no_new_privs: executed programs gain no privileges."""
    one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, one, zero, zero, zero), "prctl no_new_privs")


def drop_capability(number: int) -> None:
    """Removes the capability from the bounding set."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(_DROP_CAPABILITY, ctypes.c_ulong(number), zero, zero, zero), "prctl drop capability")


def last_capability() -> int:
    """The highest capability number of this kernel."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        return int(file.read())


def filter_system_calls(program: bytes) -> None:
    """Installs the seccomp filter *program*."""
    buffer = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))

    filter_ = Filter(len(program) // _INSTRUCTION_BYTES, ctypes.addressof(buffer))
    zero = ctypes.c_ulong(0)
    result = _libc.prctl(_SECCOMP, ctypes.c_ulong(_SECCOMP_FILTER), ctypes.byref(filter_), zero, zero)
    _check(result, "prctl seccomp")


def oom_score() -> int:
    """The oom_score_adj of this process, from -1000 to 1000 (killed first)."""
    with open(_OOM_SCORE, encoding="ascii") as file:
        return int(file.read())


def set_oom_score(score: int) -> None:
    """Sets the oom_score_adj of this process. Raises PermissionError if it is lowered without privileges."""
    file = os.open(_OOM_SCORE, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, str(score).encode())
    finally:
        os.close(file)


def protect_from_oom_killer() -> None:
    """Lowers the oom_score_adj of this process, so that containers are killed first, if that is permitted."""
    try:
        set_oom_score(min(_OWN_OOM_SCORE, oom_score()))
    except OSError:
        return  # not root: then the score of containers is raised instead


def signalfd(signals: set[int]) -> int:
    """Blocks *signals* and returns a descriptor that is readable when one is pending."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    mask = sum(1 << (number - 1) for number in signals)
    words = (ctypes.c_ulong * 16)()
    width = ctypes.sizeof(ctypes.c_ulong) * 8
    for index in range(64 // width):
        words[index] = mask >> (index * width) & ((1 << width) - 1)
    return _check(_libc.signalfd(-1, words, _SIGNALFD_FLAGS), "signalfd")

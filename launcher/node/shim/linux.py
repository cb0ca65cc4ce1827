"""The calls of Linux that Python's own library lacks: namespaces, mounts, and signals as a file."""

import ctypes
import errno
import os
import signal
import stat

NEW_MOUNTS = 0x00020000
NEW_CGROUPS = 0x02000000
NEW_UTS = 0x04000000
NEW_USERS = 0x10000000
NEW_PIDS = 0x20000000

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
_NO_NEW_PRIVILEGES = 38
_SECCOMP, _SECCOMP_FILTER = 22, 2
_DROP_CAPABILITY = 24
_INSTRUCTION_BYTES = 8
_OOM_SCORE = "/proc/self/oom_score_adj"
#: As the kubelet's.
_OWN_OOM_SCORE = -999
_SIGNALFD_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_RECURSIVE = 0x8000
_READ_ONLY_ATTRIBUTE = 1
#: The same on every machine.
_MOUNT_SETATTR = 442
_CLOSE_RANGE = 436
_OPENAT2 = 437
_NO_SYMLINKS = 4

#: Numbers of (clone, pivot_root), for which the C library has no function that would do here.
_NUMBERS = {
    "x86_64": (56, 155),
    "aarch64": (220, 41),
    "riscv64": (220, 41),
    "ppc64le": (120, 203),
    "armv7l": (120, 218),
    "i686": (120, 217),
}

# The interpreter's lock is held during these calls: nothing else may run in a process that is being cloned.
_libc = ctypes.PyDLL(None, use_errno=True)
_mount = _libc.mount
_mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def _checked(answer: int, what: str) -> int:
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer


def _number(which: int) -> int:
    machine = os.uname().machine
    if machine not in _NUMBERS:
        raise OSError(f"namespaces are not supported on {machine}")
    return _NUMBERS[machine][which]


def clone(namespaces: int) -> int:
    """
    As ``os.fork``, but the child is the first process of new *namespaces*.

    Only for a process of one thread. The child may fork further in the ordinary way.
    """
    zero = ctypes.c_ulong(0)
    flags = ctypes.c_ulong(namespaces | signal.SIGCHLD)
    return _checked(_syscall(ctypes.c_long(_number(0)), flags, zero, zero, zero, zero), "clone")


def enter(namespace: int) -> None:
    """Go into the namespace that the descriptor stands for."""
    _checked(_libc.setns(namespace, 0), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount, as the call of that name does. Raises OSError that names the target."""
    words = [
        word.encode(errors="surrogateescape") if word is not None else None
        for word in (source, kind, options)
    ]
    _checked(_mount(words[0], os.fsencode(target), words[1], flags, words[2]), f"mount {target}")


def open_without_links(path: str) -> int:
    """A descriptor that stands for *path*. Raises OSError, also when any part of the path is a symbolic link."""
    flags = os.O_PATH | os.O_CLOEXEC
    how = (ctypes.c_uint64 * 3)(flags, 0, _NO_SYMLINKS)
    answer = _syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_long(-100),
        ctypes.c_char_p(os.fsencode(path)),
        how,
        ctypes.c_ulong(ctypes.sizeof(how)),
    )
    if answer == -1 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):  # Linux before 5.6, or a filter
        return _walk(path, flags)
    return _checked(answer, f"open {path}")


def _walk(path: str, flags: int) -> int:
    at = os.open("/", flags)
    for name in path.split("/"):
        if name in ("", "."):
            continue
        try:
            below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)
        finally:
            os.close(at)
        at = below
        if stat.S_ISLNK(os.fstat(at).st_mode):
            os.close(at)
            raise OSError(errno.ELOOP, f"open {path}: {os.strerror(errno.ELOOP)}")
    return at


def make_read_only(target: str, *, below: bool) -> None:
    """The mount at *target* (and with *below*, every mount under it) can no longer be written to."""
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY_ATTRIBUTE, 0, 0, 0)
    answer = _syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_long(-100),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_ulong(_RECURSIVE if below else 0),
        attributes,
        ctypes.c_ulong(ctypes.sizeof(attributes)),
    )
    _checked(answer, f"make {target} read-only")


def pivot(root: str) -> None:
    """*root* becomes the root, and the old one is out of reach."""
    os.chdir(root)
    here = ctypes.c_char_p(b".")
    _checked(_syscall(ctypes.c_long(_number(1)), here, here), "pivot_root")
    _checked(_libc.umount2(here, _MNT_DETACH), "umount the old root")
    os.chdir("/")


def close_from(first: int) -> None:
    """No descriptor of that number or a higher one is left open."""
    last = ctypes.c_ulong(0xFFFFFFFF)
    if _syscall(ctypes.c_long(_CLOSE_RANGE), ctypes.c_ulong(first), last, ctypes.c_ulong(0)) == 0:
        return
    for name in os.listdir("/proc/self/fd"):  # Linux before 5.9
        if int(name) >= first:
            try:
                os.close(int(name))
            except OSError:
                continue  # the one that the listing itself had open


def adopt_orphans() -> None:
    """Descendants whose parent ends become children of this process."""
    _checked(_libc.prctl(_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def unshare(namespaces: int) -> None:
    """This process is in new *namespaces* from now on."""
    _checked(_libc.unshare(namespaces), "unshare")


def set_hostname(name: str) -> None:
    """The name of the machine in this namespace."""
    raw = os.fsencode(name)
    _checked(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), "sethostname")


def forbid_new_privileges() -> None:
    """No program that is executed from now on has more rights than this process."""
    one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, one, zero, zero, zero), "prctl no_new_privs")


def drop_capability(number: int) -> None:
    """No program that is executed from now on gets the capability."""
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(_DROP_CAPABILITY, ctypes.c_ulong(number), zero, zero, zero), "prctl drop capability")


def last_capability() -> int:
    """The highest number of a capability that this kernel knows."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        return int(file.read())


def filter_system_calls(program: bytes) -> None:
    """Every system call from now on is judged by *program*, which is in the form that seccomp takes."""
    buffer = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))

    filter_ = Filter(len(program) // _INSTRUCTION_BYTES, ctypes.addressof(buffer))
    zero = ctypes.c_ulong(0)
    answer = _libc.prctl(_SECCOMP, ctypes.c_ulong(_SECCOMP_FILTER), ctypes.byref(filter_), zero, zero)
    _checked(answer, "prctl seccomp")


def oom_score() -> int:
    """How likely the kernel is to kill this process when memory runs out, from -1000 to 1000."""
    with open(_OOM_SCORE, encoding="ascii") as file:
        return int(file.read())


def set_oom_score(score: int) -> None:
    """As ``oom_score`` answers it from now on. Raises PermissionError for less than now, except for root."""
    file = os.open(_OOM_SCORE, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, str(score).encode())
    finally:
        os.close(file)


def protect_from_oom_killer() -> None:
    """Containers are killed before this process when memory runs out, where this process may ask for it."""
    try:
        set_oom_score(min(_OWN_OOM_SCORE, oom_score()))
    except OSError:
        return  # not root: then containers are made more likely than we are


def signals_as_file(signals: set[int]) -> int:
    """A descriptor that can be read when one of *signals* has come; they are blocked from now on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    mask = sum(1 << (number - 1) for number in signals)
    words = (ctypes.c_ulong * 16)()
    width = ctypes.sizeof(ctypes.c_ulong) * 8
    for place in range(64 // width):
        words[place] = mask >> (place * width) & ((1 << width) - 1)
    return _checked(_libc.signalfd(-1, words, _SIGNALFD_FLAGS), "signalfd")

"""Confines a container's program: capabilities, no new privileges, and the default seccomp filter."""

from __future__ import annotations

import errno
import os
import struct

from launcher.node.shim import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from launcher.node.shim.run_records import Json

#: In the order of their numbers in ``linux/capability.h``.
CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
)

#: System calls that the default filter denies, with their numbers on (x86_64, aarch64); None where there is none.
_DENIED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, None),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
#: By machine: the column of the table above, the audit architecture, and the numbers of clone and clone3.
_MACHINES = {"x86_64": (0, 0xC000003E, 56, 435), "aarch64": (1, 0xC00000B7, 220, 435)}
#: The namespace flags of clone.
_NEW_NAMESPACES = 0x7E020000
#: On x86_64 the system call numbers of the unused x32 ABI begin here.
_X32 = 0x40000000

# Instructions of the filter, its results, and offsets in its input.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16


def can_filter() -> bool:
    """Whether there is a seccomp filter for this machine."""
    return os.uname().machine in _MACHINES


def confine(config: Json) -> None:
    """Applies the securityContext of *config* to this process and its children. Raises OSError."""
    # The filter before the capabilities: without no_new_privs it needs one.
    # Runs of an earlier release lack these fields.
    if config.get("no_new_privileges"):
        linux.forbid_new_privileges()
    if config.get("filtered"):
        linux.filter_system_calls(default_filter(os.uname().machine))
    if config.get("capabilities") is not None:
        drop_all_but(config["capabilities"])


def drop_all_but(names: Iterable[str]) -> None:
    """Drops all capabilities but these from the bounding set."""
    allowed = {CAPABILITIES.index(name) for name in names}
    for number in range(linux.last_capability() + 1):
        if number not in allowed:
            linux.drop_capability(number)


def default_filter(machine: str) -> bytes:
    """A seccomp program that denies the system calls that container engines deny by default."""
    column, architecture, clone, clone3 = _MACHINES[machine]
    denied = sorted(numbers[column] or 0 for numbers in _DENIED.values() if numbers[column] is not None)
    eperm, enosys = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        # Programs of another architecture have other numbers.
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, enosys),
        # A filter cannot read the flags of clone3; without it the C library uses clone.
        (_EQUAL, 0, 1, clone3),
        (_RETURN, 0, 0, enosys),
        (_EQUAL, 0, 4, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, eperm),
        (_RETURN, 0, 0, _ALLOW),
    ]
    for number in denied:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, eperm)]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)

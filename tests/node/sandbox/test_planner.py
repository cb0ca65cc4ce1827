"""Mount plans: all mounts are visible, other files stay, and nothing is created on the machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from launcher.node.container_runtime import Mount
from launcher.node.sandbox.filesystem import FileType, Machine
from launcher.node.sandbox.mount_steps import (
    Bind,
    Dir,
    MakeFile,
    MakeReadOnly,
    Overlay,
    Proc,
    Step,
    Symlink,
    Tmpfs,
    bubblewrap_arguments,
    to_wire,
)
from launcher.node.sandbox.planner import InvalidMount, plan
from launcher.node.shim.mounts import _RootBuilder
from tests.node.sandbox.mount_model import DIR, FakeMachine, MountedContainer, below

NAMES = st.sampled_from("abc")
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
LINKS = st.lists(NAMES | st.just(".."), min_size=1, max_size=3).map("/".join)
CONTENTS = st.just(DIR) | st.just("file") | (LINKS | PATHS).map("->{}".format)
TREES = st.dictionaries(PATHS, CONTENTS, max_size=12)
PLAIN_TREES = st.dictionaries(PATHS, st.sampled_from([DIR, "file"]), max_size=12)
#: A volume is a directory with a file, or a file.
VOLUMES = {"/volumes/0/a": "file", "/volumes/0/b/c": "file", "/volumes/1/c": "file", "/volumes/2": "file"}


@st.composite
def mount_lists(draw: st.DrawFn) -> list[Mount]:
    targets = draw(st.lists(PATHS, max_size=4, unique=True))
    return [
        Mount(Path(f"/volumes/{draw(st.integers(0, 2))}"), target, read_only=draw(st.booleans()))
        for target in targets
    ]


def a_machine(tree: dict[str, str], image: dict[str, str] | None = None) -> FakeMachine:
    overlaid = {f"/image{path}": content for path, content in (image or {}).items()}
    # Only directories have children.
    whole: dict[str, str] = {}
    for path in sorted(tree | VOLUMES | overlaid):
        above = [path[:end] for end in range(1, len(path)) if path[end] == "/"]
        if all(whole.get(resolved, DIR) == DIR for resolved in above):
            whole[path] = (tree | VOLUMES | overlaid)[path]
    return FakeMachine(whole)


def plan_or_reject(machine: FakeMachine, mounts: Sequence[Mount], **more: Any) -> tuple[Step, ...]:
    """The plan; discards cases that no container engine supports."""
    try:
        return plan(machine, mounts, **more)
    except InvalidMount as error:
        event(str(error).partition(": ")[2].partition(" ")[2][:30])
        assume(False)
        raise


@given(tree=TREES, mounts=mount_lists(), overlays=st.booleans(), read_only_root=st.booleans())
def test_every_mount_is_visible_at_its_target_and_other_files_stay(
    tree: dict[str, str], mounts: list[Mount], overlays: bool, read_only_root: bool
) -> None:
    machine = a_machine(tree)
    container = MountedContainer(machine)

    container.run(plan_or_reject(machine, mounts, overlays=overlays, read_only_root=read_only_root))

    resolved_paths = [paths_to(machine, mount) for mount in mounts]
    resolved_targets = [resolved_path[-1] for resolved_path in resolved_paths]
    for mount, resolved_path, resolved in zip(mounts, resolved_paths, resolved_targets, strict=True):
        inside_another = any(
            below(step, other) for step in resolved_path for other in resolved_targets if resolved != other
        )
        # Two names may lead to one path: then the later mount is on top. Inside a mount, links lead elsewhere.
        if resolved_targets.count(resolved) == 1 and (resolved == mount.target or not inside_another):
            assert container.at(resolved).read_only is mount.read_only
            others = [other for other in resolved_targets if other != resolved]
            for path in machine.files:
                if below(path, str(mount.source)):
                    there = resolved + path[len(str(mount.source)) :]
                    # A directory that is replaced by one in memory still has its entries.
                    if not any(below(there, other) for other in others):
                        assert container.at(there).source == path or machine.kind(path) is FileType.DIR
                        assert container.at(there).kind is machine.kind(path)
    for path in machine.files:
        if not any(below(path, resolved) for resolved in [*resolved_targets, "/proc"]):
            seen = container.at(path)
            assert seen.kind is machine.kind(path)
            assert seen.source == path or seen.kind is not FileType.FILE
            assert seen.kind is not FileType.LINK or seen.text == machine.text(path)
            assert seen.read_only or not read_only_root or below(path, "/dev") or seen.source is None
    writable = [str(mount.source) for mount in mounts if not mount.read_only]
    assert all(any(below(path, source) for source in writable) for path in container.created_outside)


@given(
    tree=TREES,
    image=PLAIN_TREES,
    mounts=mount_lists(),
    overlays=st.booleans(),
    hidden=st.sampled_from(["/a", "/a/b", "/a/b/c", "/volumes/0/b", "/volumes/0/a"]),
)
def test_hidden_paths_are_not_visible(
    tree: dict[str, str], image: dict[str, str], mounts: list[Mount], overlays: bool, hidden: str
) -> None:
    base = {"/a": DIR, "/a/b": DIR, "/a/b/c": "file", "/dev/null": "file"}
    machine = a_machine(tree | base, image)
    container = MountedContainer(machine)

    overlaid = Path("/image") if image else None
    container.run(plan_or_reject(machine, mounts, image=overlaid, overlays=overlays, hidden=[hidden]))

    inside = [str(mount.source) for mount in mounts if below(str(mount.source), hidden)]
    targets = [mount.target + path[len("/volumes/0") :] for mount in mounts for path in machine.files]
    for path in {*machine.files, *targets}:
        source = container.at(path).source
        if source is not None and below(source, hidden):
            # Only the content of the container's own mounts is visible.
            assert any(below(source, own) for own in inside)


def test_a_host_path_below_a_hidden_path_is_rejected() -> None:
    machine = FakeMachine({"/data/store": "file", "/srv/x": "file"})

    with pytest.raises(InvalidMount, match="belongs to the launcher"):
        plan(machine, [Mount(Path("/data/store"), "/mnt", host_path=True)], hidden=["/data"])


def paths_to(machine: FakeMachine, mount: Mount) -> list[str]:
    """All paths that lead to the target, with the machine's links followed; the last is its real path."""
    done, names, resolved_path = "", [name for name in mount.target.split("/") if name], [""]
    for _ in range(100):
        resolved_path += [done, f"{done}/{names[0]}"] if names else [done]
        if not names:
            return resolved_path
        name = names.pop(0)
        if name == "..":
            done = done.rpartition("/")[0]
            continue
        if machine.kind(f"{done}/{name}") is FileType.LINK:
            text = machine.text(f"{done}/{name}")
            names = [part for part in text.split("/") if part] + names
            done = "" if text.startswith("/") else done
        else:
            done = f"{done}/{name}"
    raise AssertionError(mount)


@given(tree=PLAIN_TREES, image=PLAIN_TREES, overlays=st.booleans())
def test_every_file_of_an_image_is_visible_and_other_files_stay(
    tree: dict[str, str], image: dict[str, str], overlays: bool
) -> None:
    machine = a_machine(tree, image)
    container = MountedContainer(machine)

    container.run(plan(machine, image=Path("/image"), overlays=overlays))

    overlaid = {path.removeprefix("/image"): path for path in machine.files if path.startswith("/image/")}
    for path, source in overlaid.items():
        assert container.at(path).kind is machine.kind(source)
        assert container.at(path).source == source or machine.kind(source) is FileType.DIR
    for path in machine.files:
        # Where one of the two is not a directory, the image replaces everything below.
        replaced = any(
            below(path, resolved) and FileType.FILE in (machine.kind(source), machine.kind(resolved))
            for resolved, source in overlaid.items()
        )
        if not replaced and not below(path, "/proc"):
            assert container.at(path).kind is machine.kind(path)
            assert container.at(path).source == path or machine.kind(path) is FileType.DIR
    assert not container.created_outside


@given(tree=TREES, image=TREES, mounts=mount_lists(), overlays=st.booleans())
def test_an_image_and_mounts_are_planned_for_any_links_and_nothing_is_created_outside(
    tree: dict[str, str], image: dict[str, str], mounts: list[Mount], overlays: bool
) -> None:
    machine = a_machine(tree, image)
    container = MountedContainer(machine)

    container.run(plan_or_reject(machine, mounts, image=Path("/image"), overlays=overlays))

    writable = [str(mount.source) for mount in mounts if not mount.read_only]
    assert all(any(below(path, source) for source in writable) for path in container.created_outside)


def test_a_directory_of_an_image_may_be_a_link_on_the_machine() -> None:
    machine = a_machine({"/usr/bin/sh": "file", "/bin": "->usr/bin"}, {"/bin/tool": "file"})
    container = MountedContainer(machine)

    container.run(plan(machine, image=Path("/image")))

    assert container.at("/usr/bin/tool").source == container.find("/bin/tool").source == "/image/bin/tool"
    assert container.find("/bin/sh").source == "/usr/bin/sh"


def test_a_directory_of_an_image_replaces_a_file_of_the_image_that_is_reached_through_a_link() -> None:
    machine = a_machine({"/c/b": "->/b"}, {"/b/a/b": "file", "/b/a/c": "file", "/c/b/a/b/d": "file"})
    container = MountedContainer(machine)

    container.run(plan(machine, image=Path("/image"), overlays=True))

    assert container.find("/c/b/a/b/d").source == container.at("/b/a/b/d").source == "/image/c/b/a/b/d"
    assert container.at("/b/a/c").source == "/image/b/a/c"


def test_without_mounts_the_root_is_bound_whole() -> None:
    assert plan(a_machine({})) == (Bind("/", "/"), Proc("/proc"))


def test_a_directory_with_many_entries_becomes_an_overlay_if_possible() -> None:
    many = {f"/usr/bin/{number}": "file" for number in range(1500)}
    machine = a_machine(many, {"/usr/bin/new": "file", "/usr/bin/7": "file"})

    layered = plan(machine, image=Path("/image"), overlays=True)
    bound = plan(machine, image=Path("/image"))

    assert layered == (
        Bind("/", "/"),
        Overlay("/usr/bin", ("/usr/bin",)),
        Bind("/image/usr/bin/7", "/usr/bin/7", read_only=True),
        MakeFile("/usr/bin/new"),
        Bind("/image/usr/bin/new", "/usr/bin/new", read_only=True),
        Proc("/proc"),
    )
    assert sum(isinstance(step, Bind) for step in bound) == 1502


def test_devices_are_never_in_an_overlay() -> None:
    machine = a_machine({f"/dev/{number}": "file" for number in range(100)})

    steps = plan(machine, [Mount(Path("/volumes/2"), "/dev/termination-log")], overlays=True)

    assert not any(isinstance(step, Overlay) for step in steps)


STEPS: tuple[Step, ...] = (
    Bind("/a", "/b", read_only=True, optional=True),
    Bind("/a", "/b"),
    Tmpfs("/c", 0o1777),
    Dir("/d", 0o700),
    MakeFile("/e"),
    Symlink("f", "/g"),
    MakeReadOnly("/c"),
    Proc("/proc"),
)


@pytest.mark.parametrize("step", [*STEPS, Overlay("/a", ("/b", "/c"))])
def test_the_shim_implements_every_step(step: Step) -> None:
    name, *arguments = to_wire(step)

    method = getattr(_RootBuilder, str(name))
    assert method.__code__.co_argcount == len(arguments) + 1


def test_steps_are_converted_to_options_of_bubblewrap() -> None:
    assert " ".join(bubblewrap_arguments(STEPS)) == (
        "--unshare-pid --new-session --ro-bind-try /a /b --dev-bind /a /b --perms 1777 --tmpfs /c "
        "--perms 0700 --dir /d --symlink f /g --remount-ro /c --proc /proc"
    )


def test_machine_reads_the_files_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o750)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("folder")
    machine, top = Machine(), str(tmp_path)

    assert machine.entries(top) == ["file", "folder", "link"]
    kinds = [machine.kind(f"{top}/{name}") for name in ("file", "folder", "link", "none")]
    assert kinds == [FileType.FILE, FileType.DIR, FileType.LINK, FileType.MISSING]
    assert (machine.followed_kind(f"{top}/link"), machine.text(f"{top}/link")) == (FileType.DIR, "folder")
    assert machine.mode(f"{top}/folder") == 0o750
    assert machine.entries(f"{top}/none") == ()
    assert "/proc" in machine.mounts_below("/")
    assert not machine.mounts_below("/proc/self/task")

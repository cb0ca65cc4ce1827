"""Volumes: prepared before the containers start, and removed after they have ended."""

import asyncio
import base64
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from launcher.node.container_runtime import Mount
from launcher.node.pods.downward_api import DownwardApiContext
from launcher.node.pods.environment import ReferencedObjects
from launcher.node.sandbox.filesystem import Machine
from launcher.node.shim import linux
from launcher.node.volumes.directory_tree import remove_tree, usage
from launcher.node.volumes.mounts import MountFailed, is_mount_point, mount_tmpfs, mounts_below
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import (
    PreparedVolume,
    VolumeFailed,
    VolumeManager,
    resolve_sub_path,
    volume_mounts,
    volume_references,
)
from launcher.store.interface import CONFIG_MAPS, SECRETS, Object
from tests.node.harness import a_container, a_pod, as_root

UID = "11111111-2222-4333-8444-555555555555"


def a_pod_with(volume: Object, **spec: Any) -> Object:
    pod = a_pod("p", volumes=[{"name": "v", **volume}], metadata={"labels": {"a": "b"}}, **spec)
    pod["metadata"]["uid"] = UID
    return pod


def volumes(data: Path, **nfs: Path) -> VolumeManager:
    return VolumeManager(
        data, Nfs(data / "nfs", {key.replace("__", ":/"): path for key, path in nfs.items()})
    )


async def prepared(
    data: Path, volume: Object, found: ReferencedObjects | None = None, **spec: Any
) -> PreparedVolume:
    facts = DownwardApiContext(a_pod_with(volume, **spec), "127.0.0.2", {})
    return (await volumes(data).prepare(facts, found or {}))["v"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_an_empty_dir_is_writable_by_all_users_and_not_changed_again(tmp_path: Path) -> None:
    source = await prepared(tmp_path, {"emptyDir": {}})
    (source.path / "kept").write_text("x")
    again = await prepared(tmp_path, {"emptyDir": {}})

    assert mode(source.path) == 0o777
    assert (again.path / "kept").read_text() == "x"
    assert mode(tmp_path / "pods") == 0o700


async def test_a_volume_without_a_type_is_an_empty_dir(tmp_path: Path) -> None:
    assert (await prepared(tmp_path, {})).path.is_dir()


async def test_an_empty_dir_in_memory_is_removed_with_its_pod(tmp_path: Path) -> None:
    pod = a_pod_with({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
    manager = volumes(tmp_path)

    source = (await manager.prepare(DownwardApiContext(pod, ""), {}))["v"]
    in_memory = source.path.stat().st_dev
    (source.path / "x").write_bytes(b"y" * 1000)
    again = (await manager.prepare(DownwardApiContext(pod, ""), {}))["v"]
    await manager.remove(pod)

    assert in_memory != os.stat(tmp_path).st_dev
    assert again.path == source.path
    assert not source.path.exists()
    assert not is_mount_point(source.path)


async def test_an_empty_dir_in_memory_is_in_shared_memory_if_no_tmpfs_can_be_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(target: Path, size: int | None) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("launcher.node.volumes.empty_dir.mount_tmpfs", refuse)
    pod = a_pod_with({"emptyDir": {"medium": "Memory", "sizeLimit": "1Ki"}})
    manager = volumes(tmp_path)

    source = (await manager.prepare(DownwardApiContext(pod, ""), {}))["v"]
    (source.path / "big").write_bytes(b"x" * 100_000)
    output = manager.exceeded_limit(pod)
    await manager.remove(pod)

    assert source.path.parent == Path("/dev/shm")
    assert "Operation not permitted" in source.warning
    assert output == 'Usage of EmptyDir volume "v" exceeds the limit "1Ki".'
    assert not source.path.exists()


async def test_a_volume_exceeds_its_limit_only_above_it(tmp_path: Path) -> None:
    pod = a_pod_with({"emptyDir": {"sizeLimit": "1Mi"}})
    manager = volumes(tmp_path)
    source = (await manager.prepare(DownwardApiContext(pod, ""), {}))["v"]

    (source.path / "deep").mkdir()
    (source.path / "deep" / "a").write_bytes(b"x" * 500_000)
    (source.path / "link").symlink_to("/usr")
    small = manager.exceeded_limit(pod)
    (source.path / "b").write_bytes(b"x" * 700_000)

    assert small == ""
    assert manager.exceeded_limit(pod) == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi".'


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("Directory", "directory"),
        ("File", "file"),
        ("Socket", "socket file"),
        ("CharDevice", "character device"),
        ("BlockDevice", "block device"),
    ],
)
async def test_a_host_path_must_be_of_its_type(tmp_path: Path, kind: str, what: str) -> None:
    path = tmp_path / "missing"

    with pytest.raises(VolumeFailed) as failed:
        await prepared(tmp_path, {"hostPath": {"path": str(path), "type": kind}})

    assert str(failed.value) == (
        f'MountVolume.SetUp failed for volume "v" : hostPath type check failed: {path} is not a {what}'
    )
    assert not path.exists()


async def test_a_host_path_of_its_type_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for kind, path in (
            ("Directory", tmp_path / "directory"),
            ("DirectoryOrCreate", tmp_path / "directory"),
            ("File", tmp_path / "file"),
            ("FileOrCreate", tmp_path / "file"),
            ("Socket", tmp_path / "socket"),
            ("CharDevice", Path("/dev/null")),
            ("", tmp_path / "file"),
        ):
            source = await prepared(tmp_path, {"hostPath": {"path": str(path), "type": kind}})
            assert source.path == path


async def test_a_host_path_is_created_if_its_type_requires_it(tmp_path: Path) -> None:
    await prepared(tmp_path, {"hostPath": {"path": str(tmp_path / "a/b"), "type": "DirectoryOrCreate"}})
    await prepared(tmp_path, {"hostPath": {"path": str(tmp_path / "a/f"), "type": "FileOrCreate"}})
    await prepared(tmp_path, {"hostPath": {"path": str(tmp_path / "c/d")}})

    assert mode(tmp_path / "a/b") == 0o755
    assert mode(tmp_path / "a/f") == 0o644
    assert (tmp_path / "c/d").is_dir()


@pytest.mark.parametrize("path", ["relative", "/a/../b"])
async def test_a_host_path_must_be_absolute_without_dots(tmp_path: Path, path: str) -> None:
    with pytest.raises(VolumeFailed, match="must be absolute"):
        await prepared(tmp_path, {"hostPath": {"path": path}})


async def test_an_export_is_mounted_from_its_configured_directory(tmp_path: Path) -> None:
    export = tmp_path / "export"
    export.mkdir()
    manager = VolumeManager(tmp_path, Nfs(tmp_path / "nfs", {"server:/data/": export}))
    pod = a_pod_with({"nfs": {"server": "server", "path": "/data", "readOnly": True}})

    source = (await manager.prepare(DownwardApiContext(pod, ""), {}))["v"]
    (export / "precious").touch()
    await manager.remove(pod)

    assert source == PreparedVolume(export, read_only=True)
    assert (export / "precious").exists()


async def test_an_export_that_cannot_be_mounted_fails_with_the_flag_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.node.volumes.nfs.shutil.which", lambda _: None)

    with pytest.raises(VolumeFailed, match="--nfs server:/data=DIR"):
        await prepared(tmp_path, {"nfs": {"server": "server", "path": "/data"}})


@as_root
async def test_an_export_is_mounted_once_and_unmounted_after_its_last_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, programs = tmp_path / "export", tmp_path / "bin"
    export.mkdir()
    (export / "precious").touch()
    programs.mkdir()
    # Replaces mount(8), which cannot mount nfs on every machine, by a bind mount.
    (programs / "mount").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n/bin/mount --bind {export} "$4"\n'
    )
    (programs / "mount").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr("launcher.node.volumes.nfs._missing_requirement", lambda: "")
    nfs = Nfs(tmp_path / "nfs", {})
    source = {"server": "server", "path": "/data"}

    first = await nfs.mount(source, "one")
    second = await nfs.mount(source, "two")
    await nfs.release("one")
    still_there = (first / "precious").exists()
    await nfs.release("two")

    assert first == second
    assert still_there
    assert not first.exists()
    assert (export / "precious").exists()
    assert (tmp_path / "calls").read_text() == f"-t nfs server:/data {first}\n"


@as_root
def test_mounts_of_an_earlier_launcher_are_unmounted_and_their_content_stays(tmp_path: Path) -> None:
    export, target = tmp_path / "export", tmp_path / "nfs" / "server%3A%2Fdata"
    export.mkdir()
    (export / "precious").touch()
    target.mkdir(parents=True)
    assert os.system(f"mount --bind {export} {target}") == 0

    Nfs(tmp_path / "nfs", {}).unmount_unused()

    assert not target.exists()
    assert (export / "precious").exists()


@pytest.mark.parametrize("family", ["ephemeral", "csi", "iscsi"])
async def test_an_unsupported_volume_type_is_rejected(tmp_path: Path, family: str) -> None:
    with pytest.raises(VolumeFailed, match=f"{family} is not supported: use one of emptyDir"):
        await prepared(tmp_path, {family: {}})


CONFIG: ReferencedObjects = {
    (CONFIG_MAPS, "c"): {
        "data": {"a": "1", "b": "2"},
        "binaryData": {"raw": base64.b64encode(b"\0\xff").decode()},
    },
    (SECRETS, "s"): {"data": {"key": base64.b64encode(b"hush").decode()}},
}


async def test_a_config_map_is_mounted_as_files(tmp_path: Path) -> None:
    source = await prepared(tmp_path, {"configMap": {"name": "c", "defaultMode": 0o640}}, CONFIG)

    assert {path.name: path.read_bytes() for path in source.path.iterdir()} == {
        "a": b"1",
        "b": b"2",
        "raw": b"\0\xff",
    }
    assert mode(source.path / "a") == 0o640
    assert source.read_only


async def test_items_select_keys_paths_and_modes(tmp_path: Path) -> None:
    items = [{"key": "a", "path": "deep/er", "mode": 0o600}]

    source = await prepared(tmp_path, {"configMap": {"name": "c", "items": items}}, CONFIG)

    assert [path for path in source.path.rglob("*") if path.is_file()] == [source.path / "deep/er"]
    assert mode(source.path / "deep/er") == 0o600


async def test_removed_keys_are_removed_from_the_volume_when_it_is_prepared_again(tmp_path: Path) -> None:
    await prepared(tmp_path, {"configMap": {"name": "c"}}, CONFIG)
    source = await prepared(
        tmp_path, {"configMap": {"name": "c"}}, {(CONFIG_MAPS, "c"): {"data": {"a": "9"}}}
    )

    assert [(path.name, path.read_text()) for path in source.path.iterdir()] == [("a", "9")]


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        ({"configMap": {"name": "c", "items": [{"key": "z", "path": "z"}]}}, "non-existent configmap key: z"),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "../x"}]}}, "must be relative"),
        (
            {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "no"}}]}},
            "unsupported fieldPath",
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            "serviceAccountToken is not supported",
        ),
    ],
)
async def test_a_missing_reference_of_a_volume_fails_the_mount(
    tmp_path: Path, volume: Object, message: str
) -> None:
    with pytest.raises(VolumeFailed, match=message):
        await prepared(tmp_path, volume, CONFIG)


async def test_optional_references_may_be_missing(tmp_path: Path) -> None:
    source = await prepared(tmp_path, {"configMap": {"name": "none", "optional": True}})

    assert list(source.path.iterdir()) == []


async def test_a_projected_volume_combines_its_sources(tmp_path: Path) -> None:
    downward = {
        "items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "memory", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory"}},
        ]
    }
    sources = [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}, {"downwardAPI": downward}]
    limited = a_container("main", resources={"limits": {"memory": "1Ki"}})
    pod = a_pod_with({"projected": {"sources": sources}})
    pod["spec"]["containers"] = [limited]

    source = (await volumes(tmp_path).prepare(DownwardApiContext(pod, ""), CONFIG))["v"]

    assert sorted(path.name for path in source.path.iterdir()) == ["a", "b", "key", "labels", "memory", "raw"]
    assert (source.path / "labels").read_text() == 'a="b"'
    assert (source.path / "memory").read_text() == "1024"
    assert {one.name for one in volume_references(pod)} == {"c", "s"}


@as_root
async def test_the_fs_group_owns_the_pods_own_volumes(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir(mode=0o755)
    pod = a_pod_with({"configMap": {"name": "c", "defaultMode": 0o400}}, securityContext={"fsGroup": 4321})
    pod["spec"]["volumes"].append({"name": "h", "hostPath": {"path": str(host)}})

    sources = await volumes(tmp_path).prepare(DownwardApiContext(pod, ""), CONFIG)

    file = sources["v"].path / "a"
    assert (file.stat().st_gid, mode(file)) == (4321, 0o440)
    assert mode(sources["v"].path) == 0o2775
    assert host.stat().st_gid != 4321


def mounts(root: Path, *, read_only: bool = False, **mount: Any) -> list[Mount]:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/mnt/v", **mount}]}
    return list(volume_mounts(container, {"v": PreparedVolume(root, read_only)}, {"NAME": "x"}))


def test_a_mount_is_read_only_if_it_or_its_volume_is(tmp_path: Path) -> None:
    assert mounts(tmp_path) == [Mount(tmp_path, "/mnt/v")]
    assert mounts(tmp_path, readOnly=True)[0].read_only
    assert mounts(tmp_path, read_only=True)[0].read_only


def test_a_sub_path_is_created_and_may_contain_variables(tmp_path: Path) -> None:
    [plain] = mounts(tmp_path, subPath="a/b")
    [spelled] = mounts(tmp_path, subPathExpr="logs/$(NAME)")

    assert plain.source == tmp_path / "a/b"
    assert plain.source.is_dir()
    assert spelled.source == tmp_path / "logs/x"


def test_a_sub_path_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").touch()

    assert mounts(tmp_path, subPath="f", read_only=True)[0].source == tmp_path / "f"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"subPath": "../x"}, "must be relative"),
        ({"subPath": "/etc"}, "must be relative"),
        ({"subPath": "out/passwd"}, "leads out of the volume"),
        ({"subPath": "chain"}, "leads out of the volume"),
        ({"subPath": "dangling/new"}, "leads out of the volume"),
        ({"subPathExpr": "$(NONE)"}, "has no variable NONE"),
        ({"subPathExpr": "$(NAME)/../../y"}, "must be relative"),
    ],
)
def test_a_sub_path_never_leads_out_of_its_volume(tmp_path: Path, part: Any, message: str) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    volume.mkdir()
    (volume / "out").symlink_to("/etc")
    (volume / "chain").symlink_to("out")
    (volume / "dangling").symlink_to(outside)

    with pytest.raises(MountFailed, match=message):
        mounts(volume, **part)

    assert not outside.exists()


def test_a_link_within_the_volume_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert resolve_sub_path(tmp_path, "link/new", create=True) == tmp_path / "real/new"


def test_a_missing_sub_path_of_a_read_only_volume_fails(tmp_path: Path) -> None:
    with pytest.raises(MountFailed, match="does not exist in the volume"):
        mounts(tmp_path, subPath="none", read_only=True)


def test_remove_tree_follows_no_links(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (outside / "precious").touch()
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (tmp_path / "top").symlink_to(outside)

    remove_tree(inside)
    remove_tree(tmp_path / "top")

    assert not inside.exists()
    assert (outside / "precious").exists()


@as_root
def test_remove_tree_unmounts_first_and_keeps_the_mounted_files(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside dir"
    outside.mkdir()
    (outside / "precious").touch()
    (inside / "bind").mkdir(parents=True)
    assert os.system(f"mount --bind {outside} '{inside}/bind'") == 0

    remove_tree(inside)

    assert not inside.exists()
    assert (outside / "precious").exists()


def test_remove_tree_removes_deep_directories(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 20, dir_fd=here)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    remove_tree(top)

    assert not top.exists()


def test_remove_tree_of_a_missing_directory_does_nothing(tmp_path: Path) -> None:
    remove_tree(tmp_path / "none")
    remove_tree(tmp_path / "none" / "at all")


def test_the_usage_of_a_missing_directory_is_zero(tmp_path: Path) -> None:
    assert usage(tmp_path / "none") == 0


async def test_several_pods_prepare_their_volumes_concurrently(tmp_path: Path) -> None:
    manager = volumes(tmp_path)
    pods = [a_pod_with({"emptyDir": {}}) for _ in range(20)]
    for number, pod in enumerate(pods):
        pod["metadata"]["uid"] = f"uid-{number}"

    await asyncio.gather(*[manager.prepare(DownwardApiContext(pod, ""), {}) for pod in pods])

    assert sorted(manager.pod_uids()) == sorted(f"uid-{number}" for number in range(20))


@as_root
def test_all_users_of_mount_points_read_the_same_ones(tmp_path: Path) -> None:
    """Also of a path with characters that /proc/self/mountinfo escapes."""
    outer = tmp_path / "with space"
    inner = outer / "ü\\b"
    outer.mkdir()
    mount_tmpfs(outer, None)
    inner.mkdir()
    mount_tmpfs(inner, None)

    assert linux.mounts_below(str(tmp_path)) == [str(outer), str(inner)]
    assert mounts_below(tmp_path) == [inner, outer]
    assert Machine().mounts_below(str(outer)) == [str(inner)]
    assert is_mount_point(inner)

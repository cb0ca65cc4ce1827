"""The files of a container: those of this machine, its mounts and its image."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launcher.node.container_runtime import Mount, StartFailed
from launcher.node.runtime.process_runtime import ProcessRuntime
from tests.node.runtimes import (
    ISOLATION_MODES,
    a_config,
    a_runtime,
    log_text,
    run_to_end,
    shell,
    use_isolation,
)


@pytest.fixture(params=ISOLATION_MODES)
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    use_isolation(request.param, tmp_path, monkeypatch)
    async with a_runtime(tmp_path, {"overlaid": tmp_path / "image"}) as opened:
        yield opened


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory with a file in it."""
    folder = tmp_path / "volume"
    folder.mkdir()
    (folder / "file").write_text("of the volume\n")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory of this machine, with a file, a directory, and links."""
    folder = tmp_path / "home"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "deep").write_text("deep\n")
    (folder / "file").write_text("mine\n")
    (folder / "link").symlink_to("sub")
    (folder / "lost").symlink_to("/nowhere/at/all")
    return folder


def exists(path: str) -> bool:
    return os.path.lexists(path)


def everything(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


async def test_a_volume_is_mounted_at_a_path_that_does_not_exist_on_the_machine(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path
) -> None:
    config = shell(
        tmp_path,
        "cat /configdir/file; echo new >/configdir/made; ls -d /usr /etc/passwd",
        mounts=[Mount(volume, "/configdir")],
    )

    assert await run_to_end(runtime, config) == 0

    assert log_text(tmp_path) == "of the volume\n/etc/passwd\n/usr\n"
    assert (volume / "made").read_text() == "new\n"
    assert not exists("/configdir")


async def test_the_neighbours_of_a_mount_point_stay_visible(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path, home: Path
) -> None:
    before = everything(home)
    script = f"cd {home}; cat file link/deep sub/deep new/one/file; readlink link lost; echo more >>file; ls"

    assert await run_to_end(runtime, shell(tmp_path, script, mounts=[Mount(volume, f"{home}/new/one")])) == 0

    assert log_text(tmp_path) == (
        "mine\ndeep\ndeep\nof the volume\nsub\n/nowhere/at/all\nfile\nlink\nlost\nnew\nsub\n"
    )
    assert everything(home) == before
    assert (home / "file").read_text() == "mine\nmore\n"


async def test_a_mount_point_may_exist_and_be_behind_a_link(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path, home: Path
) -> None:
    mounts = [Mount(volume, f"{home}/sub"), Mount(volume / "file", f"{home}/link/file")]

    await run_to_end(
        runtime, shell(tmp_path, f"cat {home}/sub/file {home}/link/file; ls {home}/sub", mounts=mounts)
    )

    assert log_text(tmp_path) == "of the volume\nof the volume\nfile\n"
    assert (home / "sub" / "deep").exists()


async def test_a_file_is_mounted_on_a_file_and_at_a_new_path(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path, home: Path
) -> None:
    # Unlikely names: some machines have a /dev/termination-log.
    device, directory = f"/dev/launcher-test-{os.getpid()}", f"/etc/launcher-test-{os.getpid()}"
    mounts = [
        Mount(volume / "file", f"{home}/file"),
        Mount(volume / "file", device),
        Mount(volume / "file", f"{directory}/place"),
    ]
    script = f"cat {home}/file {directory}/place; echo said >{device}; ls /etc/passwd; echo x >/dev/null"

    assert await run_to_end(runtime, shell(tmp_path, script, mounts=mounts)) == 0

    assert log_text(tmp_path) == "of the volume\nof the volume\n/etc/passwd\n"
    assert (volume / "file").read_text() == "said\n"
    assert not exists(device)
    assert not exists(directory)


async def test_writing_to_a_read_only_mount_fails(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path
) -> None:
    script = "touch /data/new; echo x >/data/file; cat /data/file; touch /data/sub/new && echo written"
    (volume / "sub").mkdir()
    inner = tmp_path / "inner"
    inner.mkdir()
    mounts = [Mount(volume, "/data", read_only=True), Mount(inner, "/data/sub")]

    await run_to_end(runtime, shell(tmp_path, f"exec 2>&1; {script}", mounts=mounts))

    assert "Read-only file system" in log_text(tmp_path)
    assert log_text(tmp_path).endswith("of the volume\nwritten\n")
    assert sorted(os.listdir(volume)) == ["file", "sub"]
    assert os.listdir(inner) == ["new"]


async def test_nested_mounts_do_not_depend_on_their_order(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path
) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    outer.mkdir()
    inner.mkdir()
    (inner / "file").write_text("inner\n")
    mounts = [
        Mount(volume / "file", "/data/a/b/one"),
        Mount(inner, "/data/a/b"),
        Mount(outer, "/data"),
    ]

    code = await run_to_end(
        runtime, shell(tmp_path, "cat /data/a/b/file /data/a/b/one; echo kept >/data/new", mounts=mounts)
    )

    assert code == 0
    assert log_text(tmp_path) == "inner\nof the volume\n"
    assert (outer / "new").read_text() == "kept\n"


async def test_a_mount_point_is_not_created_in_a_read_only_mount(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    mounts = [Mount(volume, "/data", read_only=True), Mount(inner, "/data/new")]
    script = "cat /data/file; touch /data/new/x && echo written; touch /data/y 2>/dev/null || echo refused"

    await run_to_end(runtime, shell(tmp_path, script, mounts=mounts))

    assert log_text(tmp_path).startswith("of the volume\nwritten\n")
    assert log_text(tmp_path).endswith("refused\n")
    assert os.listdir(volume) == ["file"]


async def test_mounts_and_devices_are_writable_under_a_read_only_root(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path, home: Path
) -> None:
    script = (
        f"touch {home}/x; echo $?; touch /x; echo $?; echo a >/data/new && echo fine; "
        "echo b >/dev/null && echo fine; touch /dev/shm/launcher-test && rm /dev/shm/launcher-test && echo fine"
    )

    await run_to_end(
        runtime,
        shell(tmp_path, f"exec 2>/dev/null; {script}", mounts=[Mount(volume, "/data")], read_only_root=True),
    )

    assert log_text(tmp_path) == "1\n1\nfine\nfine\nfine\n"
    assert not (home / "x").exists()


async def test_a_container_sees_only_its_own_processes(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await run_to_end(runtime, shell(tmp_path, "ls /proc | grep -c '^[0-9]*$'; echo $$"))

    count, pid = log_text(tmp_path).split()
    assert int(count) <= 4
    assert pid == "2"


async def test_an_image_directory_is_overlaid_on_the_root(
    runtime: ProcessRuntime, tmp_path: Path, volume: Path, home: Path
) -> None:
    image = tmp_path / "image"
    (image / "benchmarks" / "scripts").mkdir(parents=True)
    (image / "benchmarks" / "scripts" / "run.sh").write_text("echo benchmark\n")
    (image / "usr" / "bin").mkdir(parents=True)
    tool = image / "usr" / "bin" / "launcher-test-tool"
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    (image / "bin").mkdir()
    (image / "bin" / "launcher-test-link").symlink_to("launcher-test-tool")
    own = image / str(home)[1:]
    own.mkdir(parents=True)
    (own / "file").write_text("of the image\n")
    (own / "extra").write_text("extra\n")
    script = (
        "sh /benchmarks/scripts/run.sh; launcher-test-tool; launcher-test-link; ls -d /bin/sh /usr/bin/env; "
        f"cat {home}/file {home}/extra {home}/sub/deep /benchmarks/data/file"
    )
    before, usr = everything(image), os.listdir("/usr/bin")

    code = await run_to_end(
        runtime, shell(tmp_path, script, image="overlaid", mounts=[Mount(volume, "/benchmarks/data")])
    )

    assert log_text(tmp_path) == (
        "benchmark\ntool\ntool\n/bin/sh\n/usr/bin/env\nof the image\nextra\ndeep\nof the volume\n"
    )
    assert code == 0
    assert everything(image) == before
    assert os.listdir("/usr/bin") == usr
    assert not exists("/benchmarks")


async def test_writes_to_an_image_are_visible_only_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_isolation("unshare", tmp_path, monkeypatch)
    (tmp_path / "image" / "launcher-test").mkdir(parents=True)
    async with a_runtime(tmp_path, {"overlaid": tmp_path / "image"}) as runtime:
        first = await run_to_end(
            runtime, shell(tmp_path, "cd /launcher-test; echo x >new; cat new", image="overlaid", run="a")
        )
        second = await run_to_end(runtime, shell(tmp_path, "ls /launcher-test", image="overlaid", run="b"))

    assert (first, second) == (0, 0)
    assert log_text(tmp_path, "a") == "x\n"
    assert log_text(tmp_path, "b") == ""
    assert not os.listdir(tmp_path / "image" / "launcher-test")


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        pytest.param("missing", "/data", "missing does not exist", id="the source does not exist"),
        pytest.param("volume", "/", "must be an absolute path below the root", id="the root"),
        pytest.param(
            "volume", "/proc/sys/x", "nothing can be mounted in /proc", id="the container's processes"
        ),
        pytest.param("volume", "/a/../b", "must be an absolute path below the root", id="dots"),
        pytest.param("volume", "/etc/passwd", "a directory cannot be mounted on a file", id="a file"),
        pytest.param("volume/file", "/etc", "a file cannot be mounted on a directory", id="a directory"),
        pytest.param("volume", "/etc/passwd/x", "not a directory", id="below a file"),
    ],
)
async def test_an_invalid_mount_fails_the_start(
    tmp_path: Path, volume: Path, source: str, target: str, message: str
) -> None:
    async with a_runtime(tmp_path) as runtime:
        with pytest.raises(StartFailed, match=message) as error:
            await runtime.start_container(
                a_config(tmp_path, "true", mounts=[Mount(tmp_path / source, target)])
            )

    assert error.value.reason == "CreateContainerConfigError"
    assert os.listdir(volume) == ["file"]


async def test_without_namespaces_only_containers_without_mounts_run(
    tmp_path: Path, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_isolation("plain", tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as runtime:
        plain = a_config(tmp_path, "true", run="plain")
        code = await run_to_end(runtime, plain)
        with pytest.raises(StartFailed, match="install bubblewrap") as error:
            await runtime.start_container(a_config(tmp_path, "true", mounts=[Mount(volume, "/data")]))

        assert code == 0
        assert error.value.reason == "CreateContainerConfigError"
        assert any("bubblewrap" in sentence for sentence in runtime.unsupported_features(plain))

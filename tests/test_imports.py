"""Imports are at the top of a module, where a reader and the import contracts see them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import launcher

PACKAGE = Path(launcher.__file__).parent
#: Modules that are imported inside a function, because importing them takes much time or memory and few need them.
DEFERRED = {
    # jsonschema, to explain why an object is invalid.
    "core/validation/schema.py": {"launcher.core.validation.schema_explainer"},
    # h2, for gRPC probes.
    "node/agent/handler_runner.py": {"launcher.node.agent.grpc_health"},
    # kubernetes_asyncio, to read a kubeconfig.
    "wiring/kubernetes.py": {"launcher.store.kubernetes.kubeconfig"},
    # aiodocker, for --runtime docker.
    "wiring/container_runtime.py": {
        "launcher.node.runtime.docker_engine",
        "launcher.node.runtime.docker_images",
        "launcher.node.runtime.docker_owner",
        "launcher.node.runtime.docker_runtime",
    },
    # obstore, for the log archive.
    "wiring/log_archive.py": {"launcher.log_archive.object_store"},
    # pyroute2, for isolated pods.
    "wiring/pod_network.py": {"launcher.node.network.networks"},
}


#: The packages of processes that run beside the launcher.
SMALL_PROGRAMS = {PACKAGE / "node" / "shim", PACKAGE / "node" / "network" / "rootless"}


def function_imports(tree: ast.Module) -> Iterator[str]:
    """The modules that functions of *tree* import."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield node.module or ""


def test_only_slow_modules_that_few_need_are_imported_inside_a_function() -> None:
    found = {
        str(path.relative_to(PACKAGE)): imports
        for path in PACKAGE.rglob("*.py")
        if (imports := set(function_imports(ast.parse(path.read_text()))))
    }

    assert found == DEFERRED


def test_annotations_do_not_need_imports_of_their_own() -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        # Programs of their own do not import typing, which would double their memory.
        if "TYPE_CHECKING" in path.read_text() and path.parent not in SMALL_PROGRAMS
    }

    # The latter passes on an object of a module that takes long to import, only with the runtime docker.
    assert users == {"core/validation/schema.py", "wiring/container_runtime.py"}

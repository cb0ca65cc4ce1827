"""``make bench`` runs all benchmarks, ``python -m tests.bench NAME…`` some of them."""

import importlib
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

import tests.bench

_OUTPUT_DIRECTORY = Path("build/bench")


def main(package: ModuleType, names: list[str]) -> int:
    """Runs the benchmarks of *package* with these *names*, or all. Returns 0 if every goal is met."""
    found = pkgutil.iter_modules(package.__path__)
    benchmarks = [module.name for module in found if module.name != "__main__" and not module.ispkg]
    unknown = set(names) - set(benchmarks)
    if unknown:
        print(
            f"no such benchmark: {', '.join(sorted(unknown))}; choose from {', '.join(benchmarks)}",
            file=sys.stderr,
        )
        return 2
    missed = 0
    _OUTPUT_DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name in names or benchmarks:
        rows: list[tests.bench.Row] = importlib.import_module(f"{package.__name__}.{name}").rows()
        (_OUTPUT_DIRECTORY / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n")
        print(f"\n{name}")
        for row in rows:
            print(_line(row))
        missed += sum(row["holds"] is False for row in rows)
    print(f"\n{missed} goals missed" if missed else "\nall goals met")
    return 1 if missed else 0


def _line(row: tests.bench.Row) -> str:
    mark = {True: "ok  ", False: "MISS", None: "    "}[row["holds"]]
    goal = f"(goal {row['goal']})" if row["goal"] else ""
    return f"  {mark} {row['value']:>10.4g} {row['unit']:<8} {row['name']} {goal}".rstrip()


if __name__ == "__main__":
    sys.exit(main(tests.bench, sys.argv[1:]))

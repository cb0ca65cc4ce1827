"""``make bench``: measure, print, save. ``python -m tests.bench NAME…`` measures only those."""

import importlib
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

import tests.bench

_SAVED = Path("build/bench")


def main(package: ModuleType, wanted: list[str]) -> int:
    """0 when every goal holds of what the modules of *package* measure."""
    found = pkgutil.iter_modules(package.__path__)
    known = [module.name for module in found if module.name != "__main__" and not module.ispkg]
    unknown = set(wanted) - set(known)
    if unknown:
        print(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    missed = 0
    _SAVED.mkdir(parents=True, exist_ok=True)
    for name in wanted or known:
        rows: list[tests.bench.Row] = importlib.import_module(f"{package.__name__}.{name}").rows()
        (_SAVED / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n")
        print(f"\n{name}")
        for row in rows:
            print(_line(row))
        missed += sum(row["holds"] is False for row in rows)
    print(f"\n{missed} goals missed" if missed else "\nevery goal holds")
    return 1 if missed else 0


def _line(row: tests.bench.Row) -> str:
    mark = {True: "ok  ", False: "MISS", None: "    "}[row["holds"]]
    goal = f"(goal {row['goal']})" if row["goal"] else ""
    return f"  {mark} {row['value']:>10.4g} {row['unit']:<8} {row['name']} {goal}".rstrip()


if __name__ == "__main__":
    sys.exit(main(tests.bench, sys.argv[1:]))

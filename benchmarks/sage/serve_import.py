"""Time to import `sage.serve.server` compared with the libraries that it uses, in turns: `python serve_import.py [MODULE [TURNS]]`.

Each import runs in a process of its own, and its processor time counts. The libraries are all modules outside sage that are
loaded afterwards, in the order in which they were loaded first. MODULE may also be `sage.serve.app`, the application itself,
which the server loads when it starts to serve.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version

IMPORT = "from time import process_time as now; a = now(); import {module}; b = now()"
OURS = ("sage", "rl_base", "__main__")
MODULES = f"; import json, sys; print(json.dumps([name for name in sys.modules if name.split('.')[0] not in {OURS}]))"
LIBRARIES = """
from time import process_time as now
from importlib import import_module
a = now()
for name in {names}:
    try:
        import_module(name)
    except ImportError:  # a name that a package made up for itself
        pass
b = now()
"""
MOST = 1.2


def main() -> None:
    module = sys.argv[1] if len(sys.argv) > 1 else "sage.serve.server"
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    ours = IMPORT.format(module=module)
    names = json.loads(run(ours + MODULES))
    programs = {"module_s": f"{ours}; print(b - a)", "libraries_s": f"{LIBRARIES.format(names=names)}print(b - a)"}
    for program in programs.values():
        run(program)  # compiles what is not compiled yet
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(turns):
        for name, program in programs.items():
            times[name].append(float(run(program)))
    ratios = [whole / libraries for whole, libraries in zip(*times.values(), strict=True)]
    middle = statistics.median(ratios)
    found: dict[str, object] = {"module": module}
    found |= {name: round(statistics.median(measured), 4) for name, measured in times.items()}
    found |= {"ratio": round(middle, 3), "ratios": [round(min(ratios), 3), round(max(ratios), 3)], "turns": turns}
    found |= {"at_most": MOST, "met": middle <= MOST, "torch": "torch" in names}
    found |= {"python": platform.python_version(), "numpy": version("numpy"), "machine": platform.platform()}
    print(json.dumps(found, indent=2))


def run(program: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


if __name__ == "__main__":
    main()

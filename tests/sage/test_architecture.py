"""The architecture of sage, as a test. A failure here is a design question, not a lint error."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rl_training
import sage
from tests.test_architecture import (
    PICKLERS,
    failures_are_not_swallowed,
    libraries_log_and_commands_print,
    no_module_is_of_one_system,
    texts_are_in_utf8,
)
from tests.trees import parse_all

ROOT = Path(sage.__file__).parent
MAX_LINES = 400
ROOMS = (
    "log",
    "sandbox",
    "grading",
    "workspace",
    "verifiers",
    "policies",
    "outcomes",
    "evidence",
    "rl",
    "proof",
    "orchestrator",
    "pipeline",
    "upstream",
)
ROOMS += (
    "local_models",
    "serve",
    "sim",
    "agent",
    "report",
    "benchmarks",
    "cli",
)  # each imports only what stands before it
BASE = (
    "assets",
    "dollars",
    "files",
    "process_lock",
    "settings",
    "splitting",
    "words",
)  # files of `sage` itself, which import no room
TORCH_FILES = {
    "rl/train_bc.py",
    "rl/train_cql.py",
    "rl/network_training.py",
    "rl/cascades/cascade_dqn.py",
    "sim/comparison.py",
    "sim/environment/baselines.py",
    "sim/environment/dynamics.py",
    "sim/environment/gym_env.py",
    "sim/environment/live.py",
    "sim/environment/models.py",
    "sim/environment/players.py",
    "sim/environment/pointer_ppo.py",
    "sim/routers.py",
    "sim/scoring.py",
    "sim/training.py",
}  # that train a network, or run where one is trained
INSIDE = "sandbox/inside/"  # a program of its own, for Linux, which commands of strangers run in
PROGRAMS = (INSIDE, "sim/environment/trial_program.py", "workspace/search_program.py")  # that run in sandboxes
ENVIRONMENT = {"environ", "getenv", "putenv", "environb"}

Check = Callable[[str, ast.Module], Iterator[str]]


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def rooms_stand_in_one_order(path: str, tree: ast.Module) -> Iterator[str]:
    """Finds imports of a later room: at the top of a file, inside functions, for type checkers, and by `import_module`."""
    room = path.split("/")[0].removesuffix(".py")
    if room in ("__init__", "__main__"):  # which forward public names, and start the command line
        return
    allowed = {*BASE, *ROOMS[: ROOMS.index(room) + 1]} if room in ROOMS else set(BASE)
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [f"sage.{alias.name}" for alias in node.names] if node.module == "sage" else [node.module or ""]
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            modules = [str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)]
        for module in modules:
            root, _, inner = module.partition(".")
            if root == "sage" and inner and inner.split(".")[0] not in allowed:
                yield f"{room} imports {module}"


def nothing_is_pickled(path: str, tree: ast.Module) -> Iterator[str]:
    yield from (f"imports {module}" for module in imported_modules(tree) if module.split(".")[0] in PICKLERS)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield "allow_pickle"


def the_environment_is_read_in_one_file(path: str, tree: ast.Module) -> Iterator[str]:
    if path == "settings.py":
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT:
            yield f"line {node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.ImportFrom) and node.module == "os" and ENVIRONMENT & {a.name for a in node.names}:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def only_training_knows_torch(path: str, tree: ast.Module) -> Iterator[str]:
    if path not in TORCH_FILES:
        yield from (f"imports {module}" for module in imported_modules(tree) if module.split(".")[0] == "torch")


def private_names_stay_in_their_file(path: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for name in (*(node.module or "").split("."), *(alias.name for alias in node.names)):
                if name.startswith("_") and not name.endswith("__"):
                    yield f"line {node.lineno}: {ast.unparse(node)}"


def what_runs_inside_needs_the_standard_library_only(path: str, tree: ast.Module) -> Iterator[str]:
    if path.startswith(INSIDE):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                continue  # of its own folder
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                yield from (f"imports {name}" for name in names if name.split(".")[0] not in sys.stdlib_module_names)


CHECKS: tuple[Check, ...] = (
    rooms_stand_in_one_order,
    nothing_is_pickled,
    failures_are_not_swallowed,
    no_module_is_of_one_system,
    texts_are_in_utf8,
    libraries_log_and_commands_print,
    the_environment_is_read_in_one_file,
    only_training_knows_torch,
    private_names_stay_in_their_file,
    what_runs_inside_needs_the_standard_library_only,
)
FOR_A_LIBRARY = {
    failures_are_not_swallowed,
    no_module_is_of_one_system,
    libraries_log_and_commands_print,
    the_environment_is_read_in_one_file,
}
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every file as it is parsed, once for all rules; gone after this module."""
    return parse_all(SOURCES)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_source_keeps_the_rule(check: Check, trees: dict[str, ast.Module]) -> None:
    ours = [path for path in SOURCES if not (path.startswith(PROGRAMS) and check in FOR_A_LIBRARY)]
    bad = [f"{path}: {finding}" for path in ours for finding in check(path, trees[path])]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (rooms_stand_in_one_order, "def f():\n    from sage.serve.state import ServingState"),
        (rooms_stand_in_one_order, "from sage import report"),
        (rooms_stand_in_one_order, "import_module('sage.cli.main')"),
        (nothing_is_pickled, "import joblib"),
        (nothing_is_pickled, "from pickle import loads"),
        (nothing_is_pickled, "np.load(path, allow_pickle=True)"),
        (failures_are_not_swallowed, "try:\n    f()\nexcept (OSError, Exception):\n    pass"),
        (failures_are_not_swallowed, "try:\n    f()\nexcept:\n    pass"),
        (the_environment_is_read_in_one_file, "import os\nx = os.environ['A']"),
        (the_environment_is_read_in_one_file, "from os import getenv"),
        (only_training_knows_torch, "def f():\n    import torch.nn"),
        (private_names_stay_in_their_file, "from sage.policies.policy import _draw"),
        (what_runs_inside_needs_the_standard_library_only, "from sage.files import write_text"),
        (what_runs_inside_needs_the_standard_library_only, "import numpy"),
    ],
)
def test_the_check_finds_a_breach(check: Check, source: str) -> None:
    path = f"{INSIDE}x.py" if check is what_runs_inside_needs_the_standard_library_only else "rl/x.py"
    assert list(check(path, ast.parse(source)))


def test_rl_training_never_imports_sage() -> None:
    root = Path(rl_training.__file__).parent
    users = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if any(module.split(".")[0] == "sage" for module in imported_modules(ast.parse(path.read_text())))
    ]
    assert users == []


def test_files_stay_readable() -> None:
    sizes = {path: len(text.splitlines()) for path, text in SOURCES.items()}
    assert {path: size for path, size in sizes.items() if size > MAX_LINES} == {}


WITHOUT_TORCH = {
    "the package": "import sage; sage.Router; sage.DecisionLog",
    "the command line": "from sage.cli.main import build_parser; build_parser()",
    "routing with a checkpoint": """
from sage import Router
switches = {"SAGE_RL_POLICY": "1", "SAGE_RL_CHECKPOINT": "policy.bin", "SAGE_RL_FORCE": "1"}
router = Router.open("log.db", models="models.yaml", environment=switches)
assert router.policy is not None, router.problem
assert router.outcome(router.route(role="coder", task="x").id, quality=1.0) == "joined"
""",
    "training and the gate": """
import sage
from sage.rl.collect_synth import collect_synthetic
sage.train(collect_synthetic(200), out="dr.bin")
assert not sage.gate(collect_synthetic(200), "dr.bin").promote
""",
    "commands": """
from sage.cli import main
assert main(["init", "--models", "m.yaml"]) == 0
assert main(["route", "--role", "coder", "--db", "a.db", "--models", "m.yaml"]) == 0
assert main(["rl", "collect-synth", "--rows", "80", "--db", "a.db"]) == 0
assert main(["rl", "export", "--db", "a.db", "--output", "rows.jsonl"]) == 0
assert main(["bench", "--compare-policy"]) == 0
for learner in ("table", "dr"):
    assert main(["train", "--learner", learner, "--data", "rows.jsonl", "--out", learner]) == 0
    assert main(["prove", learner, "--data", "rows.jsonl", "--allow-synthetic"]) == 3
assert main(["lab", "plan", "--data", "rows.jsonl", "--models", "m.yaml", "--gain", "0.2"]) == 0
assert main(["report", "--db", "a.db", "--out", "report.html"]) == 0
assert main(["status", "--db", "a.db", "--models", "m.yaml"]) == 0
assert main(["train", "--learner", "cql", "--data", "rows.jsonl"]) == 2  # a sentence
assert main(["sim", "audit"]) == 2
""",
    "the proxy": """
import threading
from pathlib import Path
from urllib.request import urlopen
from sage.serve.server import Options, listen, new_server
from sage.serve.places import Places
listening = listen("127.0.0.1", 0)
table = Path("served.yaml")
table.write_text('''
models: {small: {input_usd_per_mtok: 1, output_usd_per_mtok: 1, upstream: {url: "http://127.0.0.1:9/v1"}}}
roles: {default: {primary: small, fallback: small}}
'''.strip())
server = new_server(Options(Places(table, Path("served.db")), "127.0.0.1"))
answers = []
def ask():
    answers.append(urlopen(f"http://127.0.0.1:{listening.getsockname()[1]}/healthz", timeout=20).status)
    server.should_exit = True
threading.Thread(target=ask).start()
server.run(sockets=[listening])
assert answers == [200]
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sage.policies.checkpoint import save_policy
    from sage.rl.collect_synth import collect_synthetic
    from sage.rl.train_cql import train_cql

    folder = tmp_path_factory.mktemp("routing")
    (folder / "models.yaml").write_text((ROOT / "assets" / "models.yaml").read_text())
    save_policy(folder / "policy.bin", train_cql(collect_synthetic(200), updates=2))
    return folder


@pytest.mark.parametrize("code", WITHOUT_TORCH.values(), ids=WITHOUT_TORCH)
def test_it_needs_no_torch_no_simulator_and_no_pickle(folder: Path, code: str) -> None:
    absent = ("torch", "matplotlib", "rl_training", "gymnasium", "sage.sim", "joblib")
    blocked = f"import sys\nfor name in {absent}:\n    sys.modules[name] = None\n"  # an import of it fails
    done = subprocess.run(
        [sys.executable, "-c", blocked + code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_tests_bring_their_own_data() -> None:
    """No test of sage reads outcome packs from outside: each makes the tables it needs."""
    outside = re.compile(r"shared/|/data/routing|SAGE_DATA")
    here = Path(__file__)
    users = [path.name for path in here.parent.rglob("*.py") if path != here and outside.search(path.read_text())]
    assert users == []


def test_everything_fitted_that_is_committed_is_synthetic() -> None:
    from sage.outcomes.table import OutcomeTable

    binary = [p for p in ROOT.rglob("*") if p.suffix in (".npz", ".parquet", ".safetensors", ".joblib", ".db")]
    by_name = {path.name: path for path in binary}
    assert sorted(by_name) == [
        "sim_tables.npz",
        "synthetic.npz",
    ]  # the first has what trials did: nothing in it is fitted
    assert OutcomeTable.open(by_name["synthetic.npz"]).data_source == "synthetic"

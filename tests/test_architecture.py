"""The architecture, as a test. A failure here is a design question, not a lint error."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rl_training
from tests.trees import parse_all

ROOT = Path(rl_training.__file__).parent
FOLDERS = (
    "core",
    "functional",
    "models",
    "algorithms",
    "envs",
    "data",
    "experience",
    "runtime",
    "evaluation",
    "config",
)
FOLDERS += (
    "experiment",
    "export",
    "distributed",
    "api",
    "tuning",
    "bench",
    "cli",
)  # each imports only what stands before it


def all_before(folder: str) -> set[str]:
    return {*FOLDERS[: FOLDERS.index(folder)]}


MAY_IMPORT = {  # layer -> layers it may use, also inside functions, in an order in which none uses a later one
    "core": set(),
    "functional": {"core"},
    "models": {"core", "functional"},
    "algorithms": {"core", "functional", "models"},
    "envs": {"core"},
    "data": {"core", "functional", "envs"},
    "experience": {"core", "data", "functional"},
    "runtime": {"core", "functional", "envs", "experience"},
    "evaluation": {"core", "functional", "models", "algorithms", "data", "experience", "runtime"},
    "config": all_before("config"),
    "experiment": all_before("experiment"),
    "export": all_before("export"),
    "distributed": {"core", "envs", "experience", "runtime", "config", "experiment"},
    "api": all_before("api"),
    "tuning": all_before("tuning"),
    "bench": all_before("bench"),
    "cli": all_before("cli"),
    "extending": {"core", "algorithms", "config", "envs", "experience"},
    "__init__": {"algorithms", "api", "config", "data", "experiment", "runtime", "tuning"},
    "__main__": {"cli"},
}
# Public names that forward to `api` when they are first used: algorithms.PPO, evaluation.rank, models.check_encoder.
FORWARDS = ("algorithms/__init__.py", "evaluation/__init__.py", "models/__init__.py")
TENSOR_LAYERS = {"algorithms", "core", "functional", "models"}
HOST_READS = {"item", "cpu", "numpy", "tolist"}
CASTS = {"float", "int", "bool"}
PLAIN_VALUES = {
    "core/arguments.py": {"whole_number", "real_number"},
    "core/free_memory.py": {"line_value"},
    "core/schedule.py": {"__post_init__", "parse", "checked"},
    "algorithms/sac.py": {"starts_at"},
}  # functions that cast what a config says, never a tensor
ON_HOST = {
    "core/members.py": {"all_move_on_host"},
    "core/optimizer.py": {"step_on_host"},
    "models/q_networks.py": {"choose_few"},
}  # for tensors on the CPU alone
TENSOR_FILES = (
    "api/sb3/tensor_files.py"  # opens files of other libraries with torch.load and weights_only=True, once checked
)
PICKLERS = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
POSIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
SURVIVED = {"experiment/trackers/in_background.py": 2}  # file -> errors of other people's code that a run survives
LOOPS = {  # file -> number of `while`
    "runtime/trainer.py": 1,  # the training loop
    "runtime/native_collector.py": 1,  # blocks of one collection
    "runtime/taking_turns.py": 1,  # one turn of every member of a stack after the other
    "distributed/torch_ranks.py": 1,  # waiting for the first rank
    "functional/returns.py": 1,  # pointer doubling
}
ALONE_PROGRAM = "export/run_policy.py"  # that users copy beside a policy
MAX_LINES = {"algorithms": 200, "core": 200, ALONE_PROGRAM: 440}  # that program has to be one file

Check = Callable[[str, ast.Module], Iterator[str]]


def layer_of(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Yields the modules that a file imports: at its top, inside functions, for type checkers, and by `import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module == "rl_training":
                yield from (f"rl_training.{alias.name}" for alias in node.names)
            else:
                yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(part.value) for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant))


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def method_calls(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    return ((call, call.func) for call in calls(tree) if isinstance(call.func, ast.Attribute))


def layers_point_one_way(path: str, tree: ast.Module) -> Iterator[str]:
    layer = layer_of(path)
    allowed = MAY_IMPORT[layer] | {layer} | ({"api"} if path in FORWARDS else set())
    for module in imported_modules(tree):
        root, _, inner = module.partition(".")
        if root == "" or (root == "rl_training" and (inner.partition(".")[0] or "__init__") not in allowed):
            yield f"{layer} imports {module}"


def contracts_need_torch_alone(path: str, tree: ast.Module) -> Iterator[str]:
    known = {*sys.stdlib_module_names, "rl_training", "torch", "numpy"}  # numpy: the type of arguments
    if layer_of(path) in ("core", "functional"):
        yield from (f"imports {module}" for module in imported_modules(tree) if module.split(".")[0] not in known)


def tensor_code_never_waits_for_the_device(path: str, tree: ast.Module) -> Iterator[str]:
    if layer_of(path) not in TENSOR_LAYERS:
        return
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    plain = {*PLAIN_VALUES.get(path, ()), *ON_HOST.get(path, ())}
    plain = {id(c) for f in functions if f.name in plain for c in calls(f)}
    for call, method in method_calls(tree):
        if method.attr in HOST_READS and id(call) not in plain:
            yield f"line {call.lineno}: .{method.attr}()"
    for call in calls(tree):
        if isinstance(call.func, ast.Name) and call.func.id in CASTS and id(call) not in plain:
            yield f"line {call.lineno}: {ast.unparse(call)}"


def environments_are_stepped_in_one_place(path: str, tree: ast.Module) -> Iterator[str]:
    if layer_of(path) == "envs" or path == "runtime/collector.py":
        return
    for call, method in method_calls(tree):
        if method.attr == "step" and not ast.unparse(method.value).endswith("optimizer"):
            yield f"line {call.lineno}: {ast.unparse(call)}"


def private_names_stay_in_their_file(path: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [alias.name for alias in node.names]
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            for name in (*names, *module.split(".")):
                if any(part.startswith("_") and not part.endswith("__") for part in name.split(".")):
                    yield f"line {node.lineno}: {ast.unparse(node)}"


def failures_are_not_swallowed(path: str, tree: ast.Module) -> Iterator[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)} if node.type else {"Exception"}
            if caught & {"Exception", "BaseException"}:
                found.append(f"line {node.lineno}: except {ast.unparse(node.type) if node.type else ''}")
    if len(found) != SURVIVED.get(path, 0):
        yield from found


def nothing_is_pickled(path: str, tree: ast.Module) -> Iterator[str]:
    for module in imported_modules(tree):
        if module.split(".")[0] in PICKLERS:
            yield f"imports {module}"
    for call, method in method_calls(tree):
        safe = path == TENSOR_FILES and any(ast.unparse(k) == "weights_only=True" for k in call.keywords)
        name = ast.unparse(method)
        if (
            name == "torch.save"
            or (name == "torch.load" and not safe)
            or "allow_pickle" in {k.arg for k in call.keywords}
        ):
            yield f"line {call.lineno}: {ast.unparse(call)}"


def processes_talk_in_one_place(path: str, tree: ast.Module) -> Iterator[str]:
    if layer_of(path) != "distributed":
        modules = imported_modules(tree)
        yield from (f"imports {module}" for module in modules if module.startswith("torch.distributed"))


def no_module_is_of_one_system(path: str, tree: ast.Module) -> Iterator[str]:
    if path != "file_lock.py":
        yield from (f"imports {module}" for module in imported_modules(tree) if module in POSIX_ONLY)


def texts_are_in_utf8(path: str, tree: ast.Module) -> Iterator[str]:
    """Without a word, Windows takes another encoding."""
    for call, method in method_calls(tree):
        mode = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        text = method.attr in ("read_text", "write_text") or (method.attr == "open" and mode in ("a", "a+", "r", "w"))
        if text and not any(keyword.arg == "encoding" for keyword in call.keywords):
            yield f"line {call.lineno}: {ast.unparse(call)}"


def libraries_log_and_commands_print(path: str, tree: ast.Module) -> Iterator[str]:
    """So that users can silence or redirect what is said. Progress displays write on standard error themselves."""
    for call in calls(tree):
        name = ast.unparse(call.func)
        renamed = any(ast.unparse(argument) == "FutureWarning" for argument in call.args)  # of a public name, see docs
        if (name == "print" and layer_of(path) != "cli" and path != ALONE_PROGRAM) or (
            name == "warnings.warn" and not renamed
        ):
            yield f"line {call.lineno}: {name}()"
        known = ast.unparse(call.args[0]) if name == "logging.getLogger" else "__name__"
        if layer_of(path) != "cli" and known not in ("__name__", "'torch.onnx'"):  # whose notices users need not see
            yield f"line {call.lineno}: {ast.unparse(call)}"


def nobody_switches_modes(path: str, tree: ast.Module) -> Iterator[str]:
    for call, method in method_calls(tree):
        if method.attr in ("train", "eval") and not ast.unparse(method.value).startswith("build_run("):
            yield f"line {call.lineno}: {ast.unparse(call)}"


def there_is_one_training_loop(path: str, tree: ast.Module) -> Iterator[str]:
    found = sum(isinstance(node, ast.While) for node in ast.walk(tree))
    if found != LOOPS.get(path, 0):
        yield f"{found} `while` loops instead of {LOOPS.get(path, 0)}"


CHECKS: tuple[Check, ...] = (
    layers_point_one_way,
    contracts_need_torch_alone,
    tensor_code_never_waits_for_the_device,
    environments_are_stepped_in_one_place,
    private_names_stay_in_their_file,
    failures_are_not_swallowed,
    nothing_is_pickled,
    processes_talk_in_one_place,
    no_module_is_of_one_system,
    texts_are_in_utf8,
    libraries_log_and_commands_print,
    nobody_switches_modes,
    there_is_one_training_loop,
)
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every file as it is parsed, once for all rules; gone after this module."""
    return parse_all(SOURCES)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_source_keeps_the_rule(check: Check, trees: dict[str, ast.Module]) -> None:
    bad = [f"{path}: {finding}" for path in SOURCES for finding in check(path, trees[path])]
    assert not bad, "\n".join(bad)


def test_the_config_of_an_agent_changes_in_one_place(trees: dict[str, ast.Module]) -> None:
    assigned = [
        path
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node) == "agent.config"
    ]
    assert assigned == ["api/training.py"]  # by `build_run`; `Agent.assemble` sets the first


@pytest.mark.parametrize(
    ("check", "path", "source"),
    [
        (layers_point_one_way, "core/x.py", "from rl_training.functional import gae"),
        (layers_point_one_way, "algorithms/x.py", "import rl_training.envs"),
        (layers_point_one_way, "algorithms/ppo.py", "def f():\n    from rl_training.api import PPO"),
        (layers_point_one_way, "envs/x.py", "from rl_training import runtime"),
        (layers_point_one_way, "models/x.py", "from ..envs import check"),
        (layers_point_one_way, "experiment/x.py", "from rl_training.cli import main"),
        (layers_point_one_way, "runtime/x.py", "from rl_training.distributed import SampledEnv"),
        (layers_point_one_way, "tuning/x.py", "def f():\n    from rl_training.bench import plots"),
        (layers_point_one_way, "config/x.py", "import rl_training"),
        (layers_point_one_way, "config/x.py", "from rl_training import PPO"),
        (layers_point_one_way, "config/x.py", "if TYPE_CHECKING:\n    from rl_training.api import Agent"),
        (layers_point_one_way, "config/x.py", "api = import_module('rl_training.api')"),
        (layers_point_one_way, "config/x.py", "api = import_module(f'rl_training.{name}')"),
        (contracts_need_torch_alone, "core/x.py", "def f():\n    import gymnasium"),
        (tensor_code_never_waits_for_the_device, "algorithms/x.py", "y = loss.item()"),
        (tensor_code_never_waits_for_the_device, "models/x.py", "y = float(loss)"),
        (tensor_code_never_waits_for_the_device, "core/schedule.py", "def at(x):\n    return float(x)"),
        (environments_are_stepped_in_one_place, "runtime/trainer.py", "self.env.step(action)"),
        (private_names_stay_in_their_file, "core/x.py", "from rl_training.core.tree import _walk"),
        (private_names_stay_in_their_file, "core/x.py", "import rl_training.core._tree"),
        (failures_are_not_swallowed, "cli/x.py", "try:\n    f()\nexcept (OSError, Exception):\n    pass"),
        (failures_are_not_swallowed, "cli/x.py", "try:\n    f()\nexcept:\n    pass"),
        (nothing_is_pickled, "experiment/x.py", "from pickle import dumps"),
        (nothing_is_pickled, "experiment/x.py", "torch.load(path)"),
        (nothing_is_pickled, "experiment/x.py", "torch.load(path, weights_only=True)"),
        (nothing_is_pickled, TENSOR_FILES, "torch.load(path)"),
        (processes_talk_in_one_place, "runtime/x.py", "import torch.distributed as dist"),
        (no_module_is_of_one_system, "runtime/x.py", "def f():\n    import resource"),
        (texts_are_in_utf8, "data/x.py", "(folder / name).write_text(json.dumps(x))"),
        (texts_are_in_utf8, "data/x.py", "path.open('w')"),
        (libraries_log_and_commands_print, "api/x.py", "print('note: x', file=sys.stderr)"),
        (libraries_log_and_commands_print, "core/x.py", "warnings.warn('x', stacklevel=2)"),
        (libraries_log_and_commands_print, "core/x.py", "log = logging.getLogger('rl_training')"),
        (nobody_switches_modes, "runtime/x.py", "policy.eval()"),
        (there_is_one_training_loop, "runtime/x.py", "while steps < total:\n    pass"),
        (there_is_one_training_loop, "runtime/trainer.py", "pass"),
    ],
)
def test_the_check_finds_a_breach(check: Check, path: str, source: str) -> None:
    assert list(check(path, ast.parse(source)))


def test_what_the_rules_allow_is_not_reported() -> None:
    algorithm = "from rl_training.core import StepBatch\nfinite = optimizer.step(grads)\nx = obs.float()"
    assert not [finding for check in CHECKS for finding in check("algorithms/x.py", ast.parse(algorithm))]


def test_every_folder_is_a_layer_with_a_rule() -> None:
    assert {layer_of(path) for path in SOURCES} == set(MAY_IMPORT)
    assert tuple(layer for layer in MAY_IMPORT if layer in FOLDERS) == FOLDERS


def test_no_layer_may_use_a_later_one() -> None:
    """With this order the graph of imports has no cycle, whoever imports what it may."""
    layers = list(MAY_IMPORT)
    assert [layer for number, layer in enumerate(layers) if not MAY_IMPORT[layer] <= set(layers[:number])] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_its_readme_says_what_a_folder_may_import(folder: str) -> None:
    rule = re.search(
        r"^May import: (.+?)\.(?:\s|$)", (ROOT / folder / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert rule is not None
    named = set(re.findall(r"`(\w+)`", rule[1])) & {*FOLDERS}
    if rule[1].startswith("every folder up to"):
        named = {*FOLDERS[: FOLDERS.index(named.pop()) + 1]}
    assert named == MAY_IMPORT[folder]


def test_forwards_are_looked_up_on_first_use(trees: dict[str, ast.Module]) -> None:
    """Importing a lower layer must not load `api`."""
    for path in FORWARDS:
        at_the_top = ast.Module(
            [node for node in trees[path].body if isinstance(node, ast.Import | ast.ImportFrom)], []
        )
        assert not [module for module in imported_modules(at_the_top) if module.startswith("rl_training.api")]


def test_files_stay_readable() -> None:
    sizes = {path: len(text.splitlines()) for path, text in SOURCES.items()}
    most = {path: MAX_LINES.get(path, MAX_LINES.get(layer_of(path), 400)) for path in sizes}
    bad = [f"{path}: {size} lines" for path, size in sizes.items() if size > most[path]]
    assert not bad, "\n".join(bad)


def test_the_program_beside_a_policy_needs_numpy_and_onnxruntime_alone(trees: dict[str, ast.Module]) -> None:
    modules = {name.split(".")[0] for name in imported_modules(trees["export/run_policy.py"])}
    assert modules - sys.stdlib_module_names == {"numpy", "onnxruntime"}

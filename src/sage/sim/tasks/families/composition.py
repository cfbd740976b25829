"""Composition of a program and its tests from a family: the parts that it has, their variants, in one module or
several.

A family is a module of this folder. A function or class `name__variant` may stand for `name`; `arguments_name` draws
the arguments of a call (for a class: those of the constructor and a list of method calls); `CHOICES` has the values of
constants. Expected values come from running the composed program, which is code of this package, here.
"""

from __future__ import annotations

import ast
import copy
import logging
import random
import re
from dataclasses import dataclass
from importlib.resources import files as package_files

from sage.grading.source_text import FUNCTIONS, SourceText

logging.getLogger(__name__).addHandler(logging.NullHandler())
logging.getLogger(__name__).propagate = False  # programs that log are run here for what they give
CASES = {"visible": (3, 3), "hidden": (4, 4)}  # tests of a part, and calls in a test
PACKAGES = ("kit", "lib", "tools", "core")
RAISED = (ValueError, LookupError, RuntimeError, ArithmeticError, TypeError)
Part = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Family:
    """The parsed module of a family."""

    name: str
    text: SourceText
    parts: dict[str, dict[str, Part]]  # by name, then by variant; "" is the default
    roots: tuple[str, ...]  # parts that tests call


def read_family(name: str) -> Family:
    text = SourceText(package_files("sage.sim.tasks.families").joinpath(f"{name}.py").read_text(encoding="utf-8"))
    parts: dict[str, dict[str, Part]] = {}
    for node in text.tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            base, _, variant = node.name.partition("__")
            parts.setdefault(base, {})[variant] = node
    roots = tuple(part for part in parts if f"arguments_{part}" in parts)
    return Family(name, text, parts, roots)


def names_in(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


@dataclass(frozen=True)
class Program:
    """A composed program: the files of its package and of its tests, by path."""

    package: str
    modules: dict[str, str]
    tests: dict[str, str]


def compose(name: str, seed: int) -> Program:
    """Returns the program of a family with this seed, the same at every call."""
    family = read_family(name)
    rng = random.Random(f"{name}:{seed}")
    package = f"{name}_{rng.choice(PACKAGES)}"
    constants = {constant: rng.choice(values) for constant, values in family_choices(family).items()}
    roots = [root for root in family.roots if rng.random() < 0.65]
    roots = roots if len(roots) >= 2 else list(family.roots[:3])
    chosen: dict[str, Part] = {}
    for root in roots:
        take_part(family, root, chosen, rng)
    ordered = {part: chosen[part] for part in family.parts if part in chosen}
    several = rng.random() < 0.5
    calling = {part for part, node in ordered.items() if (names_in(node) - {part}) & ordered.keys()}
    called = {other for part, node in ordered.items() for other in names_in(node) - {part} if other in ordered}
    below = closed(called, ordered) if several and calling - called else set()
    groups = {"parts": [p for p in ordered if p in below], "core": [p for p in ordered if p not in below]}
    modules = {}
    for module, members in groups.items():
        if members:
            imported = [p for p in groups["parts"] if module == "core"]
            modules[f"{package}/{module}.py"] = module_text(
                family, {p: ordered[p] for p in members}, imported, constants
            )
    exported = {module: [p for p in roots if p in members] for module, members in groups.items()}
    lines = [f"from .{module} import {', '.join(parts)}" for module, parts in exported.items() if parts]
    modules[f"{package}/__init__.py"] = f'"""{ast.get_docstring(family.text.tree)}"""\n\n' + "\n".join(lines) + "\n"
    cases = draw_cases(family, ordered, constants, roots, seed)
    return Program(package, modules, {path: tests_text(package, calls) for path, calls in cases.items()})


def family_choices(family: Family) -> dict[str, tuple]:
    for node in family.text.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CHOICES":
            return ast.literal_eval(node.value)
    return {}


def take_part(family: Family, part: str, chosen: dict[str, Part], rng: random.Random) -> None:
    """Adds a part, in one of its variants, and everything that it calls, to `chosen`."""
    if part in chosen or part not in family.parts:
        return
    variants = family.parts[part]
    chosen[part] = variants[rng.choice(sorted(variants))]
    for other in sorted(names_in(chosen[part])):
        take_part(family, other, chosen, rng)


def closed(names: set[str], parts: dict[str, Part]) -> set[str]:
    """Returns the names and all names that they call, so that the lower module needs nothing of the upper one."""
    found = set(names)
    while more := {other for name in found for other in names_in(parts[name]) if other in parts} - found:
        found |= more
    return found


def module_text(family: Family, parts: dict[str, Part], imported: list[str], constants: dict[str, object]) -> str:
    used = set[str]().union(*(names_in(node) for node in parts.values()))
    values = {
        ast.unparse(node.targets[0]): node.value for node in family.text.tree.body if isinstance(node, ast.Assign)
    }
    used |= set[str]().union(*(names_in(value) for target, value in values.items() if target in used))
    lines = [f'"""{ast.get_docstring(family.text.tree)}"""', "", "from __future__ import annotations", ""]
    imports = [node for node in family.text.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    lines += [family.text.of(node) for node in imports if used & {alias.asname or alias.name for alias in node.names}]
    if needed := [part for part in imported if part in used]:
        lines.append(f"from .parts import {', '.join(needed)}")
    for target, value in values.items():
        if target in used:
            lines.append(f"{target} = {repr(constants[target]) if target in constants else family.text.of(value)}")
    for part, node in parts.items():
        definition = re.sub(r" *# (noqa|fmt).*", "", family.text.of(node)).replace(node.name, part, 1)
        lines += ["", "", definition]
    return "\n".join(lines) + "\n"


def draw_cases(
    family: Family, parts: dict[str, Part], constants: dict[str, object], roots: list[str], seed: int
) -> dict[str, list[tuple[str, list[str]]]]:
    """Returns test files by path, each with the names and lines of its tests."""
    drawn: dict = {"__name__": __name__}  # whose log is silent
    exec(compile(family.text.source, f"<{family.name}>", "exec"), drawn)
    drawn.update(constants)
    program: dict = {"__name__": __name__}
    exec(compile(module_text(family, parts, [], constants), "<program>", "exec"), program)
    files: dict[str, list[tuple[str, list[str]]]] = {}
    for kind, (tests, calls) in CASES.items():
        path = f"tests/test_hidden_{family.name}.py" if kind == "hidden" else f"tests/test_{family.name}.py"
        files[path] = []
        for root in roots:
            rng = random.Random(f"{family.name}:{seed}:{root}:{kind}")
            write = method_lines if isinstance(parts[root], ast.ClassDef) else call_lines
            for number in range(tests):
                lines = [line for _ in range(calls) for line in write(root, program, drawn[f"arguments_{root}"](rng))]
                files[path].append((f"test_{snake(root)}_{number + 1}", lines))
    return files


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def call_lines(root: str, program: dict, arguments: tuple) -> list[str]:
    return asserted(f"{root}({written(arguments)})", program, root, copy.deepcopy(arguments))


def written(arguments: tuple) -> str:
    return ", ".join(repr(argument) for argument in arguments)


def asserted(text: str, program: dict, name: str, arguments: tuple, target: object = None) -> list[str]:
    """Returns the lines of a test that assert what a call gives or raises."""
    function = program[name] if target is None else getattr(target, name)
    try:
        expected = function(*arguments)
    except RAISED as error:
        return [f"with pytest.raises({type(error).__name__}):", f"    {text}"]
    if expected is None or isinstance(expected, bool):
        return [f"assert {text} is {expected}"]
    return [f"assert {text} == {expected!r}"]


def method_lines(root: str, program: dict, arguments: tuple) -> list[str]:
    """Returns the lines of a test that construct an object and assert what calls of its methods give."""
    given, operations = arguments
    try:
        thing = program[root](*given)
    except RAISED as error:
        return [f"with pytest.raises({type(error).__name__}):", f"    {root}({written(given)})"]
    lines = [f"{snake(root)} = {root}({written(given)})"]
    for method, *rest in operations:
        text = f"{snake(root)}.{method}({written(tuple(rest))})"
        lines += asserted(text, program, method, tuple(rest), target=thing)
    return lines


def tests_text(package: str, tests: list[tuple[str, list[str]]]) -> str:
    body = "\n\n\n".join(f"def {name}():\n" + "\n".join(f"    {line}" for line in lines) for name, lines in tests)
    return f'"""Tests of {package}."""\n\nimport pytest\n\nfrom {package} import *\n\n\n{body}\n'

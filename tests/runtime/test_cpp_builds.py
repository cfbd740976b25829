"""C++ of compiled code is built side by side and in the background, and a failure of its compiler stops no run."""

import os
import secrets
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rl_training import DQN
from rl_training.runtime import collector, compilation, cpp_builds
from rl_training.runtime.compilation import ByShape, compile_graph
from rl_training.runtime.compiler_shortcuts import nothing_to_save
from rl_training.runtime.cpp_builds import Build, Turns, build_in_background, build_library

CPU = torch.device("cpu")


def new_number() -> float:
    """Returns a constant that no earlier test has compiled, whatever the seed."""
    return 1 + secrets.randbelow(10**6) / 10**7


class Builder:
    """Stands in for torch's: writes a file, after all of `together` have come as far, if it is given."""

    def __init__(self, path: Path, together: threading.Barrier | None = None, needs: tuple[Path, ...] = ()) -> None:
        self.path, self.together, self.needs, self.calls = path, together, needs, 0

    def get_target_file_path(self) -> str:
        return str(self.path)

    def build(self) -> None:
        if self.together is not None:
            self.together.wait(20)  # raises where the others have not begun
        assert all(path.exists() for path in self.needs)
        self.calls += 1
        self.path.touch()


def test_objects_are_compiled_side_by_side_and_linked_once_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(2)
    monkeypatch.setattr(cpp_builds, "compilers", lambda: turns)
    both = threading.Barrier(2)
    objects = [Builder(tmp_path / name, both) for name in ("main.o", "kernels.o")]
    linker = Builder(tmp_path / "library.so", needs=tuple(one.path for one in objects))
    build_library(str(tmp_path / "lock"), [*objects, linker])
    build_library(str(tmp_path / "lock"), [*objects, linker])  # all of it is there
    assert [one.calls for one in (*objects, linker)] == [1, 1, 1]


def test_a_build_is_loaded_at_its_first_call_alone() -> None:
    loads = []
    build = Build(lambda: loads.append(1) or (lambda x: x + 1))
    assert not loads
    assert (build(1), build(2), loads) == (2, 3, [1])


def test_a_core_is_left_to_python_until_it_waits() -> None:
    turns, began, end = Turns(1), threading.Semaphore(0), threading.Event()

    def compile_() -> None:
        with turns.turn():
            began.release()
            assert end.wait(20)

    threads = [threading.Thread(target=compile_) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert began.acquire(timeout=20)
    assert turns.taken == turns.limit == 1
    with turns.one_more():
        assert began.acquire(timeout=20)
        assert turns.taken == turns.limit == 2
    assert turns.limit == 1  # the second goes on; the third waits for both
    end.set()
    for thread in threads:
        thread.join(20)
    assert turns.taken == 0


def test_libraries_with_the_same_kernels_compile_them_once(tmp_path: Path) -> None:
    both, object_ = threading.Barrier(2), Builder(tmp_path / "kernels.o")

    def build(name: str) -> None:
        both.wait(20)
        build_library(str(tmp_path / f"lock of {name}"), [object_, Builder(tmp_path / name, needs=(object_.path,))])

    threads = [threading.Thread(target=build, args=(name,)) for name in ("one.so", "other.so")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert object_.calls == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork: a system that is POSIX")
def test_a_forked_process_builds_with_threads_of_its_own() -> None:
    assert cpp_builds.build_threads().submit(int, 3).result(20) == 3
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends the child if it hangs
        os._exit(cpp_builds.build_threads().submit(int, 7).result())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_torch_is_left_as_it_was_also_after_an_error() -> None:
    from torch._dynamo.convert_frame import GraphCaptureOutput
    from torch._dynamo.package import SourceInfo
    from torch._inductor import codecache

    def parts() -> tuple:
        libraries = codecache.CppWrapperCodeCache
        ours = libraries.load_pybinding, codecache._worker_compile_cpp
        return *ours, SourceInfo.add_code, GraphCaptureOutput.build_guards, "load_pybinding" in vars(libraries)

    def stop_within() -> None:
        with build_in_background(), nothing_to_save():
            changed.append(parts())
            raise KeyboardInterrupt

    before, changed = parts(), []
    with pytest.raises(KeyboardInterrupt):
        stop_within()
    assert not set(before[:4]) & set(changed[0][:4])
    assert before == parts()


@pytest.mark.compiled
def test_a_graph_is_traced_before_its_compiler_ends_and_called_after(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.cpp_builder import CppBuilder

    build, go_on, commands = CppBuilder.build, threading.Event(), []

    def wait_and_build(builder: CppBuilder) -> None:
        assert go_on.wait(60)
        commands.append(builder.get_command_line())
        build(builder)

    monkeypatch.setattr(CppBuilder, "build", wait_and_build)
    number = new_number()
    run = compile_graph(lambda x: (x * number).sin(), CPU, go_on.set)
    assert isinstance(run, ByShape)
    run.begin(torch.ones(3))
    assert not go_on.is_set()
    assert not run.ready
    torch.testing.assert_close(run(torch.ones(3)), torch.full((3,), number).sin())
    assert len(run.ready) == 1
    kernels = [command for command in commands if ".optimized.cpp" in command]
    assert len(kernels) == 1
    assert " -O2 " in kernels[0]
    assert " -O3 " not in kernels[0]


@pytest.mark.compiled
def test_where_the_compiler_fails_in_the_background_the_code_runs_eagerly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch._inductor.cpp_builder import CppBuilder
    from torch._inductor.exc import CppCompileError

    def fail(builder: CppBuilder) -> None:
        raise CppCompileError(["g++"], "no space left on device")

    monkeypatch.setattr(compilation, "REASONS", set())
    number = new_number()
    with monkeypatch.context() as broken:
        broken.setattr(CppBuilder, "build", fail)
        run = compile_graph(lambda x: x * number, CPU)
        run.begin(torch.ones(3))
        fails_and_goes_on(run, number, caplog)
    again = compile_graph(lambda x: x * number, CPU)  # the same code: torch would keep the error of its first build
    assert again(torch.ones(3)).tolist() == [pytest.approx(number)] * 3
    assert not again.failed  # pyrefly: ignore (of a compiled function)


def fails_and_goes_on(run: Any, number: float, caplog: pytest.LogCaptureFixture) -> None:
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert run(torch.ones(3)).tolist() == [pytest.approx(number)] * 3
    assert run.failed
    assert "CppCompileError" in caplog.text


def test_acting_is_traced_before_the_first_update_and_built_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Traced(ByShape):
        """Runs eagerly and notes what compiled code would do."""

        def __init__(self, function: Callable, device: object, before: Callable | None = None, **kind: bool) -> None:
            self.function, self.before, self.acts = function, before, not kind

        def begin(self, *arguments: Any) -> None:
            done.append("acting is traced")

        def __call__(self, *arguments: Any) -> Any:
            if self.before is not None:
                self.before = self.before()
            done.append("acts" if self.acts else "learns")
            return self.function(*arguments)

    for module in (compilation, collector):
        monkeypatch.setattr(module, "compile_graph", Traced)
    agent = DQN("CartPole-v1", learning_starts=10, train_freq=1, net_arch=[8], compile=True, seed=0)
    agent.learn(12, progress=False)
    assert done == ["acting is traced", "learns", "acts", "learns", "acts", "learns"][: len(done)]
    assert len(done) >= 3

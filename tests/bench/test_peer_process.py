"""Other libraries as processes: how they are asked, and what is said of one that fails, hangs or is interrupted."""

import importlib
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from rl_training.bench.peer_environments import SCRIPTS, PeerUnavailableError
from rl_training.bench.peer_process import Peer
from tests.bench.fake_peer import LIMIT, PPO, PYTHON

REPLAYED = {
    "n_envs": 1,
    "net_arch": [8, 8],
    "batch_size": 8,
    "train_freq": 1,
    "gradient_steps": 1,
    "buffer_size": 100,
    "learning_starts": 10,
    "target_update_interval": 5,
    "exploration_final_eps": 0.1,
    "threads": 1,
}


def test_a_peer_measures_when_asked_and_may_print_what_it_likes(fake: Path) -> None:
    peer = Peer("fake", PYTHON, PPO, fake, limit=LIMIT)
    assert peer.versions == {"fake": "1.0"}
    assert peer.measure(1_000) > 0
    assert peer.measure(1_000) > 0
    peer.close()
    assert peer.process.returncode == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"algorithm": "TQC"}, "it has no TQC"),
        ({"device": "cuda"}, "its script here does not use cuda"),
        ({"env": "broken"}, "it failed: RuntimeError: no such environment"),
    ],
)
def test_what_a_peer_cannot_do_is_a_reason(fake: Path, change: dict, reason: str) -> None:
    with pytest.raises(PeerUnavailableError, match=reason):
        Peer("fake", PYTHON, PPO | change, fake, limit=LIMIT)


def test_a_peer_that_dies_while_it_learns_says_of_what(fake: Path) -> None:
    peer = Peer("fake", PYTHON, PPO, fake, limit=LIMIT)
    with pytest.raises(PeerUnavailableError, match="it failed: ZeroDivisionError"):
        peer.measure(13)


@pytest.mark.parametrize("env", ["CartPole-v1", "hangs"])
def test_a_peer_that_hangs_is_killed_with_all_that_it_started(fake: Path, env: str) -> None:
    """While it learns, or while it is built with a child of its own: were that left, its pipe would not end."""
    start = time.perf_counter()
    with pytest.raises(
        PeerUnavailableError, match=r"it gave no answer within 1.5 s \(--peer-timeout\) and was stopped"
    ):
        Peer("fake", PYTHON, PPO | {"env": env}, fake, limit=1.5).measure(7)
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize("said", ["a banner", "[1, 2]", "y\\ny\\ny"])
def test_a_peer_that_answers_something_else_is_a_reason(tmp_path: Path, said: str) -> None:
    script = tmp_path / "chatty.py"
    script.write_text(f"import time\nprint('{said}', flush=True)\ntime.sleep(600)\n")
    with pytest.raises(PeerUnavailableError, match=r"it printed '.+' instead of an answer"):
        Peer("chatty", PYTHON, PPO, script, limit=LIMIT)


def test_what_cannot_be_started_is_a_reason(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailableError, match=r"cannot be started: Permission denied"):
        Peer("sb3", tmp_path, PPO, limit=LIMIT)


def test_an_interruption_leaves_no_peer_behind(tmp_path: Path) -> None:
    script, running = tmp_path / "slow.py", tmp_path / "pid"
    script.write_text(f"import os, time\nopen({str(running)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")

    def interrupt(*_: object) -> None:
        if running.exists() and running.read_text():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            Peer("slow", PYTHON, PPO, script, limit=LIMIT)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert any(is_gone(int(running.read_text())) or time.sleep(0.01) for _ in range(1_000))


def is_gone(process: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(process, os.WNOHANG)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    "work",
    [
        PPO,
        PPO | {"env": "Pendulum-v1"},
        REPLAYED | {"algorithm": "DQN", "env": "CartPole-v1"},
        REPLAYED | {"algorithm": "SAC", "env": "Pendulum-v1"},
        REPLAYED | {"algorithm": "TD3", "env": "Pendulum-v1"},
    ],
    ids=lambda work: f"{work['algorithm']}-{work['env']}",
)
def test_cleanrls_loops_learn(work: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, which has what they need: torch and gymnasium."""
    monkeypatch.syspath_prepend(SCRIPTS)
    builders = importlib.import_module("cleanrl_speed").BUILDERS
    weights: dict[int, torch.Tensor] = {}

    def remember(optimizer: torch.optim.Optimizer, *_: object) -> None:
        weights.update({id(p): p.detach().clone() for g in optimizer.param_groups for p in g["params"]})

    hook = register_optimizer_step_post_hook(remember)
    learn = builders[work["algorithm"]](work)
    learn(64)
    before = dict(weights)
    learn(64)
    hook.remove()
    assert before.keys() == weights.keys()
    assert any(not torch.equal(before[key], weights[key]) for key in before)


def test_cleanrls_loops_are_served_in_any_environment_with_torch() -> None:
    """Of the peers, the only one that needs no other package: one process, two requests."""
    peer = Peer("cleanrl", PYTHON, PPO, limit=LIMIT)
    assert peer.versions["cleanrl"] == "its loop, re-written"
    assert all(peer.measure(64) > 0 for _ in range(2))
    peer.close()

"""Recurrent cores: a step at a time equals the whole sequence, and memory has rows that can be emptied."""

import copy

import pytest
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, MultiBinary, Spec
from rl_training.core.policy import Memory
from rl_training.models import ActionHead, ObservationNormalizer, RecurrentCore, RecurrentPolicy, build_encoder, forget

CORES = [("lstm", 1), ("lstm", 2), ("lstm", 3), ("gru", 1), ("gru", 2)]
every_core = pytest.mark.parametrize(("cell", "layers"), CORES)


def make(cell: str, layers: int, **options: object) -> RecurrentCore:
    torch.manual_seed(0)
    return RecurrentCore(5, 8, layers=layers, cell=cell, **options)


def some_memory(core: RecurrentCore, num: int, seed: int = 1) -> Memory:
    gen = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(part.shape, generator=gen) for part in core.initial(num))


def unroll(core: RecurrentCore, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
    outputs = []
    for row in x:
        output, memory = core.advance(row, memory)
        outputs.append(output)
    return torch.stack(outputs), memory


@every_core
@pytest.mark.parametrize("ortho_init", [True, False])
@pytest.mark.parametrize("fresh", [True, False])
@torch.no_grad()
def test_steps_equal_the_sequence(cell: str, layers: int, ortho_init: bool, fresh: bool) -> None:
    core = make(cell, layers, ortho_init=ortho_init)
    x = torch.randn(11, 4, 5)
    memory = core.initial(4) if fresh else some_memory(core, 4)
    outputs, _ = unroll(core, x, memory)
    torch.testing.assert_close(core(x, memory), outputs, rtol=0, atol=1e-6)


@every_core
@torch.no_grad()
def test_memory_carries_over_a_cut(cell: str, layers: int) -> None:
    core, x = make(cell, layers), torch.randn(9, 3, 5)
    first, memory = unroll(core, x[:4], core.initial(3))
    second = core(x[4:], memory)
    torch.testing.assert_close(torch.cat([first, second]), core(x, core.initial(3)), rtol=0, atol=1e-6)
    assert (second - core(x[4:], core.initial(3))).abs().max() > 1e-3  # and it makes a difference


@every_core
def test_gradients_of_steps_equal_the_sequences(cell: str, layers: int) -> None:
    core, x = make(cell, layers), torch.randn(6, 3, 5)
    parameters = list(core.parameters())
    whole = torch.autograd.grad(core(x, core.initial(3)).square().sum(), parameters)
    steps = torch.autograd.grad(unroll(core, x, core.initial(3))[0].square().sum(), parameters)
    torch.testing.assert_close(steps, whole, rtol=1e-4, atol=1e-5)


@every_core
def test_memory_has_one_row_per_environment(cell: str, layers: int) -> None:
    core = make(cell, layers)
    memory = core.initial(7)
    assert [part.shape for part in memory] == [(7, layers, 8)] * (2 if cell == "lstm" else 1)
    assert not any(part.any() for part in memory)
    assert len({part.data_ptr() for part in memory}) == len(memory)
    output, after = core.advance(torch.randn(7, 5), memory)
    assert output.shape == (7, 8)
    assert [part.shape for part in after] == [part.shape for part in memory]
    assert torch.equal(after[0][:, -1], output)  # the last layer's hidden state is what is shown
    assert core.features_dim == 8


@every_core
@torch.no_grad()
def test_rows_do_not_see_each_other(cell: str, layers: int) -> None:
    core, x = make(cell, layers), torch.randn(6, 4, 5)
    memory, order = some_memory(core, 4), [2, 0, 3, 1]
    permuted = core(x[:, order], tuple(part[order] for part in memory))
    torch.testing.assert_close(permuted, core(x, memory)[:, order], rtol=0, atol=1e-6)


def test_forget_empties_the_rows_where_an_episode_begins() -> None:
    memory = (torch.randn(3, 2, 4), torch.randn(3, 2, 4))
    emptied = forget(memory, torch.tensor([False, True, False]))
    for before, after in zip(memory, emptied, strict=True):
        assert not after[1].any()
        assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert forget(memory, None) is memory


@every_core
def test_weights_start_orthogonal_without_biases(cell: str, layers: int) -> None:
    core = make(cell, layers)
    for name, parameter in core.named_parameters():
        if "bias" in name:
            assert not parameter.any()
        else:
            singular = torch.linalg.svdvals(parameter)
            torch.testing.assert_close(singular, torch.ones_like(singular), rtol=1e-4, atol=0)
    plain = make(cell, layers, ortho_init=False)
    assert all(parameter.any() for parameter in plain.parameters())
    assert all(parameter.abs().max() <= 8**-0.5 for parameter in plain.parameters())


@every_core
@torch.no_grad()
def test_a_loaded_or_copied_core_steps_with_its_own_weights(cell: str, layers: int) -> None:
    """The weights a step reads are the module's parameters, not a copy from its construction."""
    core, x = make(cell, layers), torch.randn(3, 5)
    other = RecurrentCore(5, 8, layers=layers, cell=cell)
    other.load_state_dict(core.state_dict())
    copied = copy.deepcopy(core)
    expected = core.advance(x, core.initial(3))[0]
    for parameter in core.parameters():
        parameter.add_(0.1)
    assert not torch.equal(core.advance(x, core.initial(3))[0], expected)
    for twin in (other, copied):
        assert torch.equal(twin.advance(x, twin.initial(3))[0], expected)
        twin.double()
        torch.testing.assert_close(twin.advance(x.double(), twin.initial(3))[0].float(), expected, rtol=0, atol=1e-6)


OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)


def make_policy(spec: Spec, cell: str = "lstm") -> RecurrentPolicy:
    torch.manual_seed(0)
    encoder = build_encoder(spec.obs)
    core = RecurrentCore(encoder.features_dim, 8, cell=cell)
    head = ActionHead(core.features_dim, (8,), spec.action, ortho_init=False)
    return RecurrentPolicy(spec, ObservationNormalizer(spec.obs, enabled=False), encoder, core, head)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@torch.no_grad()
def test_a_policy_gives_the_log_prob_of_its_action_and_the_next_memory(cell: str) -> None:
    policy = make_policy(Spec(OBS, Discrete(4)), cell)
    memory = policy.initial_memory(6)
    observations, acts = torch.randn(5, 6, 3), []
    for obs in observations:
        acts.append(policy.act(obs, memory, torch.zeros(6, dtype=torch.bool)))
        memory = acts[-1].memory
    replayed = policy.choices(policy.encode(observations), None, policy.initial_memory(6))
    expected = replayed.log_prob(torch.stack([act.action for act in acts]))
    torch.testing.assert_close(torch.stack([act.log_prob for act in acts]), expected, rtol=0, atol=1e-6)


@torch.no_grad()
def test_a_policy_forgets_rows_marked_first() -> None:
    policy = make_policy(Spec(OBS, Discrete(4)))
    obs, memory = torch.randn(2, 3), tuple(torch.randn(2, 1, 8) for _ in range(2))
    fresh = policy.act(obs, policy.initial_memory(2), torch.tensor([False, False]), explore=False)
    half = policy.act(obs, memory, torch.tensor([True, False]), explore=False)
    for ours, empty in zip(half.memory, fresh.memory, strict=True):
        torch.testing.assert_close(ours[0], empty[0])
        assert (ours[1] - empty[1]).abs().max() > 1e-3


@torch.no_grad()
def test_a_recurrent_policy_never_takes_a_masked_action() -> None:
    policy = make_policy(Spec(Dict({"x": OBS, "action_mask": MultiBinary(4)}), Discrete(4)))
    allowed = torch.arange(1000) % 4
    obs = {"x": torch.randn(1000, 3), "action_mask": torch.nn.functional.one_hot(allowed, 4)}
    act = policy.act(obs, policy.initial_memory(1000))
    assert torch.equal(act.action, allowed)
    assert torch.equal(act.log_prob, torch.zeros(1000))

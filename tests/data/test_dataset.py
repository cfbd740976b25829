"""Known answers for everything that is computed from columns."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import Dataset, evaluation
from rl_training.core import Box, Discrete, MultiBinary, MultiDiscrete, Spec
from rl_training.data import DatasetError, Provenance, ReferenceScore, linter
from tests.data.making import count_up, make, with_stored_successors

LAYOUTS = pytest.mark.parametrize("stored", [False, True], ids=["following row", "stored"])


def arrays(**changes: object) -> dict:
    """The smallest dataset as arrays: two steps, terminated."""
    return {
        "obs": np.zeros((2, 1), np.float32),
        "action": np.zeros((2, 1), np.float32),
        "reward": np.ones(2, np.float32),
        "terminated": np.array([False, True]),
        "truncated": np.array([False, False]),
    } | changes


def test_episodes_and_returns() -> None:
    dataset = count_up()
    assert len(dataset) == 5
    assert dataset.episodes().start.tolist() == [0, 3]
    assert dataset.episodes().stop.tolist() == [3, 5]
    assert dataset.episodes().length.tolist() == [3, 2]
    assert dataset.returns.tolist() == [6.0, 9.0]


def test_an_episode_that_just_stops_is_one() -> None:
    dataset = Dataset.from_arrays(**arrays(terminated=np.zeros(2, bool), next_obs=np.ones((2, 1))))
    assert dataset.episodes().stop.tolist() == [2]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("reward", np.array([1.0, np.nan])),
        ("obs", np.array([[0.0], [np.inf]])),
        ("next_obs", np.array([[0.0], [np.nan]])),
    ],
)
def test_numbers_that_are_not_finite_are_refused_in_arrays_as_in_files(column: str, value: np.ndarray) -> None:
    given = arrays(**{"next_obs": np.ones((2, 1)), column: value})
    with pytest.raises(DatasetError, match=rf"{column} is not finite in row 1 \(1 such rows\)"):
        Dataset.from_arrays(**given)
    assert len(Dataset.from_arrays(**given, check=False)) == 2
    unknown = {"log_prob": np.full(2, np.nan), "extras": {"cost": np.full(2, np.nan)}}
    assert len(Dataset.from_arrays(**arrays(next_obs=np.ones((2, 1)), **unknown))) == 2  # which may be unknown


def test_return_to_go() -> None:
    assert count_up().return_to_go().tolist() == [6, 5, 3, 9, 5]
    assert count_up().return_to_go(0.5).tolist() == [1 + 0.5 * 2 + 0.25 * 3, 2 + 0.5 * 3, 3, 4 + 0.5 * 5, 5]
    assert count_up().return_to_go(0.0).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 64, 65])
def test_return_to_go_of_any_length_equals_the_loop(length: int) -> None:
    dataset = make(lengths=(5, length, 3), terminated=(True, False, True), seed=length)
    expected, running = np.zeros(len(dataset)), 0.0
    for row in range(len(dataset) - 1, -1, -1):
        ended = dataset.terminated[row] or dataset.truncated[row]
        running = float(dataset.reward[row]) + (0.0 if ended else 0.9 * running)
        expected[row] = running
    assert dataset.return_to_go(0.9) == pytest.approx(expected)


def test_n_step() -> None:
    two = count_up().n_step(2, 0.5)
    assert two.reward.tolist() == [1 + 0.5 * 2, 2 + 0.5 * 3, 3, 4 + 0.5 * 5, 5]
    assert two.discount.tolist() == [0.25, 0, 0, 0.25, 0.5]  # the first episode terminated, the second was cut
    assert two.last.tolist() == [1, 2, 2, 4, 4]
    one = count_up().n_step(1, 0.5)
    assert (one.reward.tolist(), one.last.tolist()) == ([1, 2, 3, 4, 5], [0, 1, 2, 3, 4])
    some = count_up().n_step(9, 0.5, rows=np.array([3, 0]))
    assert some.reward.tolist() == [4 + 0.5 * 5, 1 + 0.5 * 2 + 0.25 * 3]
    assert (some.discount.tolist(), some.last.tolist()) == ([0.25, 0], [4, 2])
    with pytest.raises(ValueError, match="n=0 must be at least 1"):
        count_up().n_step(0, 0.9)


def test_next_action() -> None:
    following = count_up((3, 2)).next_action()
    assert following.action.tolist() == [1, 2, 2, 0, 0]
    assert following.known.tolist() == [True, True, False, True, False]


@LAYOUTS
def test_successors_are_true_also_at_the_ends(stored: bool) -> None:
    dataset = with_stored_successors(count_up()) if stored else count_up()
    assert (dataset.next_obs is not None) == stored
    rows = np.array([4, 0, 2, 3, 1])
    assert dataset.successors(rows)[:, 0].tolist() == [101, 1, 100, 4, 2]
    assert dataset.take(rows).next_obs[:, 0].tolist() == [101, 1, 100, 4, 2]


def test_take_gives_tensors_of_the_loops_types() -> None:
    steps = make("dict", "discrete", log_prob=True, extras=True).take(np.array([3, 3, 22]))
    assert {key: leaf.dtype for key, leaf in steps.obs.items()} == {
        "position": torch.float32,
        "grid": torch.int64,
        "action_mask": torch.int64,
    }
    assert (steps.action.dtype, steps.reward.dtype, steps.log_prob.dtype) == (torch.int64, torch.float32, torch.float32)
    assert steps.terminated.tolist() == [True, True, False]
    assert steps.truncated.tolist() == [False, False, True]
    assert steps.valid.all()
    assert steps.columns["cost"].shape == (3, 2, 3)
    assert torch.isnan(make().take(np.array([0])).log_prob).all()
    with pytest.raises(IndexError, match="rows runs from -1 to 0, and there are"):
        make().take(np.array([0, -1]))


def test_sampling_is_uniform_and_follows_the_generator() -> None:
    dataset = count_up()
    drawn = dataset.sample(np.random.default_rng(0), 5000).obs[:, 0]
    assert np.bincount(drawn.int().numpy(), minlength=5) / 5000 == pytest.approx(np.full(5, 0.2), abs=0.03)
    assert torch.equal(drawn, dataset.sample(np.random.default_rng(0), 5000).obs[:, 0])


def test_top_keeps_the_best_episodes_in_their_order() -> None:
    dataset = count_up((1, 1, 1, 1), (True, False, True, False))
    dataset = dataset.select(np.array([3, 0, 2, 1]))
    assert dataset.returns.tolist() == [4, 1, 3, 2]
    assert dataset.top(0.5).returns.tolist() == [4, 3]
    assert dataset.top(0.5).successors(np.arange(2))[:, 0].tolist() == [103, 102]
    assert dataset.top(0.26).returns.tolist() == [4, 3]
    assert dataset.top(1e-9).returns.tolist() == [4]
    assert dataset.top(1.0).sha256 == dataset.sha256
    assert len(make(lengths=(1,) * 100, terminated=(True,) * 100).top(0.07).returns) == 7  # 0.07 * 100 is above 7
    with pytest.raises(ValueError, match="fraction=0"):
        dataset.top(0)


@LAYOUTS
def test_split_is_by_whole_episodes(stored: bool) -> None:
    dataset = make(lengths=tuple(range(1, 11)), terminated=(True,) * 10, stored=stored)
    first, second = dataset.split(0.7, seed=1)
    assert (len(first.returns), len(second.returns)) == (7, 3)
    assert sorted([*first.episodes().length, *second.episodes().length]) == list(range(1, 11))
    again, other = dataset.split(0.7, seed=1)[0], dataset.split(0.7, seed=2)[0]
    assert again.sha256 == first.sha256 != other.sha256
    assert min(len(part.returns) for part in dataset.split(0.999, seed=0)) == 1
    with pytest.raises(ValueError, match="at least two episodes"):
        count_up((2,), (True,)).split(0.5, seed=0)


@LAYOUTS
def test_concatenate(stored: bool) -> None:
    a, b = make("dict", "discrete", log_prob=True, seed=1), make("dict", "discrete", seed=2, stored=stored)
    both = Dataset.concatenate([a, b])
    rows = np.arange(len(a))
    assert len(both.returns) == 8
    assert np.isnan(both.log_prob).tolist() == [False] * len(a) + [True] * len(b)
    for part, shift in ((a, 0), (b, len(a))):
        for want, got in zip(part.take(rows)[3:7], both.take(rows + shift)[3:7], strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert (both.reference, both.provenance) == (a.reference, a.provenance)


def test_what_stops_without_a_flag_is_cut_before_something_is_put_behind_it() -> None:
    open_end = Dataset.from_arrays(**arrays(terminated=np.zeros(2, bool), last_obs=np.full((1, 1), 7.0)))
    both = Dataset.concatenate([open_end, open_end])
    assert both.truncated.tolist() == [False, True, False, True]
    assert open_end.truncated.tolist() == [False, False]
    assert both.successors(np.array([1]))[0, 0] == 7


def test_what_cannot_be_concatenated() -> None:
    with pytest.raises(DatasetError, match="spec of dataset 1 differs"):
        Dataset.concatenate([make(), make(action="discrete")])
    with pytest.raises(DatasetError, match=r"extras of dataset 1 are \['cost', 'task'\]"):
        Dataset.concatenate([make(), make(extras=True)])
    with pytest.raises(DatasetError, match="nothing to concatenate"):
        Dataset.concatenate([])
    wide = Dataset.from_arrays(**arrays(action=np.full((2, 1), 3.0), provenance=Provenance(source="a")))
    narrow = Dataset.from_arrays(**arrays(provenance=Provenance(source="b")))
    both = Dataset.concatenate([narrow, wide])  # both guessed their bounds
    assert both.spec.action == Box((1,), (-1.0,), (3.0,))
    assert both.provenance.source == "b + a"


def test_statistics() -> None:
    numbers = count_up((3, 2, 1), (True, False, True)).statistics()
    assert (numbers.rows, numbers.episodes, numbers.terminated, numbers.truncated) == (6, 3, 2, 1)
    assert numbers.returns.mean == (7.0,)
    assert numbers.returns.std == pytest.approx((np.std([6, 9, 6]),))
    assert (numbers.length.minimum, numbers.length.maximum) == ((1.0,), (3.0,))
    assert numbers.obs["obs"].mean == (2.5,)
    assert numbers.reward.std == pytest.approx((np.std(np.arange(6)),))
    assert numbers.log_prob_known == 0


def test_normalized_score() -> None:
    dataset = count_up().replace(reference=ReferenceScore(2.5, 12.5))
    assert dataset.normalized_score() == 50.0
    assert dataset.normalized_score(2.5) == 0.0
    assert ReferenceScore.d4rl("Hopper-v5").normalize(3234.3) == 100.0
    with pytest.raises(ValueError, match="no reference scores are known"):
        count_up().normalized_score()
    with pytest.raises(ValueError, match="the minimum below the maximum"):
        ReferenceScore(1.0, 1.0)
    with pytest.raises(ValueError, match="no reference scores for 'CartPole-v1'"):
        ReferenceScore.d4rl("CartPole-v1")


def test_returns_on_d4rls_scale() -> None:
    assert evaluation.normalized_score(3234.3, "hopper") == 100.0
    assert evaluation.normalized_score(-280.178953, "HalfCheetah-v5") == 0.0
    both = evaluation.normalized_score([1.629008, 4592.3], "walker2d-medium-replay-v2")
    assert isinstance(both, np.ndarray)
    assert both.tolist() == [0.0, 100.0]
    assert evaluation.normalized_score(2000, "Hopper") == pytest.approx(62.0749, abs=1e-4)
    with pytest.raises(DatasetError, match="no reference scores for 'pen-human-v1': known are HalfCheetah, Hopper"):
        evaluation.normalized_score(1.0, "pen-human-v1")


def test_spaces_are_guessed_where_nobody_says_them() -> None:
    dataset = Dataset.from_arrays(**arrays(action=np.array([[0.5], [-3.0]])))
    assert dataset.spec == Spec(Box((1,), (-np.inf,), (np.inf,)), Box((1,), (-3.0,), (1.0,)))
    assert dataset.provenance.spec_inferred
    assert Dataset.from_arrays(**arrays(action=np.array([0, 2]))).spec.action == Discrete(3)
    assert Dataset.from_arrays(**arrays(action=np.array([[0, 2], [1, 0]]))).spec.action == MultiDiscrete((2, 3))
    assert Dataset.from_arrays(**arrays(action=np.ones((2, 2), bool))).spec.action == MultiBinary(2)
    image = Dataset.from_arrays(**arrays(obs=np.zeros((2, 4, 4, 1), np.uint8))).spec.obs
    assert (image.dtype, image.high[0], image.is_image) == ("uint8", 255.0, True)
    assert not make().provenance.spec_inferred


def test_types_become_those_of_the_loop() -> None:
    dataset = Dataset.from_arrays(
        **arrays(obs=np.zeros((2, 1)), action=np.array([0.0, 1.0]), terminated=np.array([0.0, 1.0]), reward=[1, 2]),
        spec=Spec(Box((1,), (0.0,), (1.0,)), Discrete(2)),
    )
    kinds = [dataset.obs.dtype, dataset.action.dtype, dataset.reward.dtype, dataset.terminated.dtype]
    assert kinds == [np.float32, np.int64, np.float32, bool]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.ones(3)}, "obs has 2 rows and reward 3: every column needs one row per step"),
        ({"reward": np.ones((2, 1))}, r"reward has rows of shape \(1,\) where \(\) is expected: reshape"),
        ({"reward": np.array(["a", "b"])}, "reward holds <U1, not numbers"),
        ({"reward": np.array([])}, "reward has no rows"),
        ({"terminated": np.array([0, 2])}, "terminated is int64 with 2 in row 1 where true or false are needed"),
        ({"obs": np.zeros(2)}, r"obs has shape \(2,\): give it two dimensions"),
        ({"action": np.array([0, -1])}, "action holds -1: count choices from 0, or pass a spec"),
        (
            {"truncated": np.array([False, True]), "terminated": np.zeros(2, bool)},
            "next_obs is missing, .* cut at row 1",
        ),
        ({"next_obs": np.zeros((2, 1)), "last_obs": np.zeros((1, 1))}, "both given: keep next_obs"),
        ({"last_obs": np.zeros((2, 1))}, "last_obs has 2 rows for 1 episodes: give one row per episode, or next_obs"),
        ({"next_obs": np.zeros((2, 3))}, r"next_obs has rows of shape \(3,\) where \(1,\) is expected"),
        ({"log_prob": np.zeros(1)}, "log_prob has 1 rows and reward 2"),
        ({"extras": {"a b": np.zeros(2)}}, "'a b' cannot be the name of a column"),
        ({"extras": {"x": np.array([None, 1])}}, "extras/x holds object"),
        ({"obs": {"x": np.zeros((2, 1))}, "next_obs": np.zeros((2, 1))}, "next_obs is one array where the spec says"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        Dataset.from_arrays(**arrays(**changes))


def test_whole_numbers_are_needed_where_choices_are() -> None:
    with pytest.raises(DatasetError, match=r"action is float64 with 0\.5 in row 1 where whole numbers"):
        Dataset.from_arrays(**arrays(action=np.array([0.0, 0.5]), spec=Spec(Box((1,), (0.0,), (1.0,)), Discrete(2))))


def test_every_observation_can_be_stored_once() -> None:
    stored = make("dict", "discrete", stored=True)
    compact = stored.compact()
    assert compact.sha256 == make("dict", "discrete").sha256
    stored.next_obs["grid"][1] += 1
    with pytest.raises(DatasetError, match="next_obs/grid of row 1 is not the following observation"):
        stored.compact()


def test_the_example_in_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "datasets.md"
    (block,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(block, names)
    assert names["batch"].reward.shape == (256,)
    assert names["data"].normalized_score() == 12.0


def test_the_docs_name_every_fault_the_linter_knows() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    files = ("linter.py", "column_checks.py", "episode_checks.py", "stitching.py")
    source = "".join((Path(linter.__file__).parent / name).read_text() for name in files)
    known = set(re.findall(r'(?:finding|Finding)\(\s*"([a-z-]+)"', source))
    assert known == set(re.findall(r"^\| `([a-z-]+)` \| (?:error|warning) \|", page, flags=re.MULTILINE))
    assert len(known) == 21

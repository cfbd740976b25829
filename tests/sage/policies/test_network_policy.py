from dataclasses import replace

import numpy as np
import pytest

from sage.evidence.reward import REWARD_V1
from sage.policies.cells import Cells
from sage.policies.network_policy import encode, forward
from sage.rl.network_training import as_layers, calibrated, one_step_dataset
from sage.rl.train_bc import train_bc
from sage.rl.train_cql import train_cql
from tests import needs
from tests.sage.rl.made_logs import MODELS, made_contexts, made_log

CONTEXTS = made_contexts(np.array(["code", "prose"]), np.array(["x", "y"]))
ALL = np.ones((2, 3), bool)


@pytest.fixture(scope="module")
def cql():
    return train_cql(made_log(6_000), updates=600)


def test_cloning_gives_the_table_that_wrote_the_log_and_is_sure_of_it():
    policy = train_bc(made_log(2_000), updates=150)
    np.testing.assert_array_equal(policy.probabilities(CONTEXTS, MODELS, ALL), [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(policy.confidence(CONTEXTS, MODELS, ALL), [1, 1])
    assert policy.training.learner == "bc"
    assert policy.training.settings == {"updates": 150}


def test_conservative_q_learning_finds_the_better_model_and_is_sure_only_where_it_knows(cql):
    assert cql.probabilities(CONTEXTS, MODELS, ALL).argmax(axis=1).tolist() == [1, 0]
    assert cql.confidence(CONTEXTS, MODELS, ALL)[0] > 0.9
    unseen = made_contexts(np.array(["law"]), np.array(["x"]))
    assert cql.confidence(unseen, MODELS, ALL[:1])[0] == 0.0


def test_the_same_seed_learns_the_same_policy(cql):
    log = made_log(1_000)
    assert train_cql(log, updates=40).version == train_cql(log, updates=40).version
    assert train_cql(log, updates=40).version != train_cql(log, updates=40, seed=1).version


def test_numpy_computes_what_torch_does(cql):
    torch = needs.import_package("torch")
    inputs = np.random.default_rng(0).normal(size=(50, cql.layers[0][0].shape[1])).astype(np.float32)
    values = torch.from_numpy(inputs)
    for index, (weight, bias) in enumerate(cql.layers):
        values = torch.nn.functional.linear(values, torch.from_numpy(weight), torch.from_numpy(bias))
        values = values.relu() if index < 2 else values
    np.testing.assert_allclose(forward(cql.layers, inputs), values.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("learner", ["DiscreteCQL", "BC"])
def test_a_server_without_torch_decides_as_the_policy_does(learner):
    rl_training, torch = needs.import_package("rl_training"), needs.import_package("torch")
    log = made_log(500)
    dataset = one_step_dataset(log, Cells.of(log.contexts), REWARD_V1)
    policy = getattr(rl_training, learner)(dataset=dataset, net_arch=(8, 8), activation_fn="relu").algorithm.policy
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.normal_()
    inputs = np.random.default_rng(0).normal(size=(100, dataset.obs.shape[1])).astype(np.float32)
    decided = policy.decide(torch.from_numpy(inputs)).action.numpy()
    np.testing.assert_array_equal(forward(as_layers(policy), inputs).argmax(axis=1), decided)
    assert len(set(decided.tolist())) > 1


def test_a_model_that_was_never_taken_is_never_chosen():
    log = made_log(1_500)
    policy = train_cql(log.select(log.action != 1), updates=60)
    assert (policy.scores(CONTEXTS)[:, 1] == -np.inf).all()


def test_where_held_out_tasks_say_that_it_loses_it_is_not_sure(cql):
    log = made_log(4_000, seed=9)
    worse = np.tile([1.0, 0.0, 0.0], (4_000, 1)) + np.random.default_rng(0).normal(scale=0.1, size=(4_000, 3))
    judged = calibrated(cql, log, worse, np.zeros(4_000, np.int64))
    assert judged.confidence(CONTEXTS, MODELS, ALL)[0] < 0.01
    assert judged.confidence(CONTEXTS, MODELS, ALL)[1] == 1.0


def test_too_few_differing_rows_mean_no_confidence(cql):
    log = made_log(60, seed=9)  # 30 rows in which it would differ
    blind = replace(cql, edges=np.zeros(0), mean=np.full(1, np.nan), deviation=np.full(1, np.nan))
    judged = calibrated(blind, log, np.zeros((60, 3)), np.zeros(60, np.int64))
    assert judged.confidence(CONTEXTS, MODELS, ALL)[0] == 0.0


def test_a_decision_is_an_episode_of_one_step():
    log = made_log(100)
    data = one_step_dataset(log, Cells.of(log.contexts), REWARD_V1)
    assert len(data.returns) == len(data) == 100
    assert data.terminated.all()
    np.testing.assert_array_equal(data.reward, log.quality.astype(np.float32))
    np.testing.assert_allclose(np.exp(data.log_prob), log.propensity[np.arange(100), log.action], rtol=1e-6)


def test_inputs_are_features_and_the_cell():
    cells = Cells((("coder", "code"), ("coder", "prose")))
    asked = made_contexts(np.array(["prose", "law"]), np.array(["x", "y"]))
    np.testing.assert_array_equal(encode(cells, asked)[:, -2:], [[0, 1], [0, 0]])

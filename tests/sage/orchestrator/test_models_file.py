"""models.yaml as it is meant: every value where it belongs."""

from importlib.resources import files

import pytest

from sage.evidence.objective import DEFAULT
from sage.evidence.reward import REWARD_V1
from sage.log.records import ROLES
from sage.orchestrator.models_file import BanditSettings, ModelsFile, ModelsFileError
from tests.sage.examples import TABLE, parsed


def test_values_are_where_they_belong() -> None:
    table = parsed(
        "exploration: 0.2\nbandit: ucb1\nguard: {budget_usd: 2, max_latency_s: 9}\nlog: {store_prompts: true}\n"
    )
    assert list(table.models) == ["small", "medium", "large"]
    assert table.models["small"].output_usd_per_mtok == 1.0
    assert table.models["small"].roles == ROLES
    assert table.models["large"].roles == ("coder", "planner")
    assert (table.exploration.share, table.bandit, table.log.store_prompts) == (0.2, BanditSettings(kind="ucb1"), True)
    assert (table.guard.budget_usd, table.guard.max_latency_s, table.guard.confidence_floor) == (2.0, 9.0, 0.9)


def test_roles_that_are_not_named_get_the_default() -> None:
    table = parsed()
    assert set(table.roles) == set(ROLES)
    assert table.roles["debugger"] == table.roles["planner"]
    assert table.roles["coder"].primary == "small"
    assert [trigger.use for trigger in table.roles["coder"].triggers] == ["large", "medium"]


def test_what_is_left_out_is_off() -> None:
    table = parsed()
    assert (table.exploration.share, table.bandit, table.log.store_prompts, table.guard.budget_usd) == (
        0.0,
        None,
        False,
        None,
    )


def test_the_packaged_table_is_valid_and_explores() -> None:
    table = ModelsFile.parse(files("sage").joinpath("assets/models.yaml").read_text(encoding="utf-8"))
    assert list(table.models) == ["small", "medium", "large"]
    assert table.exploration.share > 0


def test_the_objective_is_todays_reward_unless_another_is_given() -> None:
    assert parsed().objective == parsed("objective: {weights: {cost: 0.2}}\n").objective == DEFAULT
    assert (DEFAULT.name, DEFAULT.weights, DEFAULT.constrained) == ("reward_v1", REWARD_V1, False)
    dear = parsed("objective: {weights: {cost: 2, latency: 0}}\n").objective
    assert (dear.weights.cost, dear.weights.latency, dear.weights.retries) == (2.0, 0.0, 0.05)
    assert dear.name == "reward_v1 with cost=2.0, latency=0.0"


def test_limits_are_read_and_reward_quality_alone() -> None:
    margin = parsed("objective: {max_points_worse: 1.5}\n").objective
    budget = parsed("objective: {max_usd_per_task: 0.25}\n").objective
    assert (margin.margin, budget.margin, budget.max_usd_per_task) == (0.015, 0.0, 0.25)
    assert margin.name == "at most 1.5 points worse in quality, as cheap as possible"
    assert budget.name == "best quality at no more than 0.25 USD per task"
    assert margin.weights.bounds == budget.weights.bounds == (0.0, 1.0)


CODER = "{ladder: [small, large], verifiers: [tests, {lint: {select: [F]}}]}"
CASCADE = f"cascade: {{default: {{ladder: [small, medium]}}, coder: {CODER}}}\n"


def test_cascades_are_read() -> None:
    rules = parsed(CASCADE).cascade
    assert set(rules) == set(ROLES)
    assert rules["debugger"].ladder == ("small", "medium")
    assert (rules["coder"].ladder, list(rules["coder"].verifiers)) == (("small", "large"), ["tests", "lint"])
    assert (rules["coder"].most_attempts, rules["coder"].exploration) == (2, None)
    only = parsed("cascade: {planner: {ladder: [large], exploration: 0.2, max_attempts: 5, budget_usd: 1}}\n").cascade
    assert list(only) == ["planner"]
    assert (only["planner"].exploration, only["planner"].most_attempts, only["planner"].budget_usd) == (0.2, 1, 1.0)
    everyone = parsed("cascade: {default: {ladder: [small, large]}}\n").cascade
    assert (everyone["coder"].ladder, everyone["reviewer"].ladder) == (("small", "large"), ("small",))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("7", "cascade is 7: it must be a mapping with at least one entry"),
        ("{codr: {ladder: [small]}}", "cascade='codr' is not known: did you mean 'coder'?"),
        ("{coder: {}}", "cascade.coder has no ladder: give it a value"),
        ("{coder: {ladder: small}}", "cascade.coder.ladder='small' must be a list of different models"),
        ("{coder: {ladder: [small, small]}}", r"cascade.coder.ladder=\['small', 'small'\] must be a list of different"),
        ("{coder: {ladder: [smal]}}", "cascade.coder.ladder='smal' is not known: did you mean 'small'?"),
        ("{debugger: {ladder: [small, large]}}", "cascade.debugger.ladder names 'large', which may not serve debugger"),
        ("{default: {ladder: [large]}}", "cascade.default.ladder names 'large', which may not serve architect"),
        ("{coder: {ladder: [small], rule: static}}", "cascade.coder: 'rule' is not a setting"),
        ("{coder: {ladder: [small], exploration: 2}}", "cascade.coder.exploration=2 must be a finite number"),
        ("{coder: {ladder: [small], max_attempts: 0}}", "cascade.coder.max_attempts=0 must be a whole number above 0"),
        ("{coder: {ladder: [small], budget_usd: -1}}", "cascade.coder.budget_usd=-1 must be a finite number"),
        ("{coder: {ladder: [small], verifiers: tests}}", "cascade.coder.verifiers='tests' must be a list"),
        ("{coder: {ladder: [small], verifiers: [test]}}", "cascade.coder.verifiers='test' is not known: did you mean"),
        ("{coder: {ladder: [small], verifiers: [lint, lint]}}", "'lint' must be a verifier that is not there twice"),
        ("{coder: {ladder: [small], verifiers: [{lint: 3}]}}", "cascade.coder.verifiers.lint=3 must be a mapping"),
        ("{coder: {ladder: [small], verifiers: [{tests: {sandbox: host}}]}}", "settings and nothing to run"),
    ],
)
def test_a_cascade_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ModelsFileError, match=sentence):
        parsed(f"cascade: {text}\n")


def test_no_model_of_a_cascade_is_called_stop() -> None:
    text = TABLE.replace("  small:", "  stop: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}\n  small:")
    assert "stop" in ModelsFile.parse(text).models
    with pytest.raises(ModelsFileError, match=r"models.stop has the name of the action that ends a cascade"):
        ModelsFile.parse(text + CASCADE)

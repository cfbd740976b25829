"""What users may import: listed once here, so that a change of it is a decision."""

import ast
import inspect
import runpy
import subprocess
import sys
import textwrap
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import rl_training
from rl_training.config.registry import ALGORITHMS

EXAMPLES = Path(__file__).parent.parent / "examples"
SURFACE = {
    "rl_training": """import_sb3 A2C APPO AWAC Agent BC BCQ BEAR C51 CQL CalQL Callback CheckpointError ConfigError CrossQ DDPG
        DQN Dataset DiscreteBCQ DiscreteCQL DiscreteIQL DiscreteSAC DoubleDQN DuelingDQN EvalResult IMPALA IQL IQN
        NStepDQN NoisyDQN NonFiniteError PPO PQN PrioritizedDQN QRDQN REDQ RLPD RainbowDQN ReBRAC RecurrentPPO
        RecordVideo RunComparison RunConfig RunRecord SAC TD3 TD3BC TQC TRPO TrainResult compare_runs load make_data
        make_data_like remove_runs runs stacked Stacked tune write_hub_card write_report A2CConfig APPOConfig
        AWACConfig
        BCConfig BCQConfig BEARConfig C51Config CQLConfig CalQLConfig CrossQConfig DDPGConfig DQNConfig
        DiscreteBCQConfig DiscreteCQLConfig DiscreteIQLConfig DiscreteSACConfig DoubleDQNConfig DuelingDQNConfig
        IMPALAConfig IQLConfig IQNConfig NStepDQNConfig NoisyDQNConfig PPOConfig PQNConfig PrioritizedDQNConfig
        QRDQNConfig REDQConfig RLPDConfig RainbowDQNConfig ReBRACConfig RecurrentPPOConfig SACConfig TD3BCConfig
        TD3Config TQCConfig TRPOConfig
        IPPO IPPOConfig IndependentQ IndependentQConfig MAPPO MAPPOConfig QMIX QMIXConfig VDN VDNConfig
        RecurrentIPPO RecurrentIPPOConfig RecurrentMAPPO RecurrentMAPPOConfig""",
    "rl_training.core": """ALONE Absent Act ActionConverter Adam Algorithm AlgorithmConfig BatchT Box Column Decision Dict
        Discrete ExperienceKind Groups Leaf Loss Metrics MultiBinary MultiDiscrete Needs ObservationConverter Optimizer Pass Periodic
        Policy RAdam RMSprop Ranks RolloutBatch Rows Schedule Scheduled Space Spec Step StepBatch Supply Transition Tree
        UniformPolicy Weighted owned register tree_leaves tree_map
        AgentGroup TeamSpec""",
    "rl_training.functional": """Bernoulli Categorical DiagGaussian Distribution ENDED MultiCategorical NStepReturn
        RunningMoments SquashedGaussian TERMINATED VTrace advantage_weights approx_kl clip_fraction clipped_surrogate
        clipped_value_loss conjugate_gradient conservative_gap detach discounted_returns expectile_loss
        explained_variance gae importance_weights kl_divergence lambda_returns merge_moments n_step_return
        normalize_advantage project_distribution quantile_huber regression_loss reverse_scan sampled_conservative_gap
        squared_mmd truncated_mixture v_trace weighted_mean weighted_means""",
    "rl_training.models": """ActionHead ActionVAE Actor BatchRenorm BestOfPolicy CategoricalHead
        ClippedGaussianPolicy Critics DenseLayer DeterministicPolicy DictEncoder EnsembleMLP FlatEncoder ImpalaCNN MLP
        MeanHead NatureCNN NoisyMLP ObservationNormalizer PICTURE_ENCODERS Perturbation PlausibleActions ProposalPolicy
        QNetwork QPolicy QuantileHead RecurrentCore RecurrentPolicy RenormActor RenormMLP SmallCNN SquashedGaussianPolicy
        StochasticPolicy ValueHead build_encoder check_encoder dense_layers dormant_share encode_mask forbid forget fuse_networks""",
    "rl_training.algorithms": """A2C A2CAlgorithm A2CConfig APPO APPOAlgorithm APPOConfig AWAC AWACAlgorithm AWACConfig
        BC BCAlgorithm BCConfig BCQ BCQAlgorithm BCQConfig BEAR BEARAlgorithm BEARConfig C51 C51Config CQL CQLAlgorithm
        CQLConfig CalQL CalQLAlgorithm CalQLConfig CrossQ CrossQAlgorithm CrossQConfig DDPG DDPGConfig DQN DQNAlgorithm
        DQNConfig DiscreteBCQ DiscreteBCQAlgorithm DiscreteBCQConfig DiscreteCQL DiscreteCQLAlgorithm DiscreteCQLConfig
        DiscreteIQL DiscreteIQLAlgorithm DiscreteIQLConfig DiscreteSAC DiscreteSACAlgorithm DiscreteSACConfig DoubleDQN
        DoubleDQNConfig DuelingDQN DuelingDQNConfig IMPALA IMPALAAlgorithm IMPALAConfig IQL IQLAlgorithm IQLConfig IQN
        IQNConfig NStepDQN NStepDQNConfig NoisyDQN NoisyDQNConfig PPO PPOAlgorithm PPOConfig PQN PQNAlgorithm PQNConfig
        PrioritizedDQN PrioritizedDQNConfig QRDQN QRDQNConfig REDQ REDQConfig RLPD RLPDConfig RainbowDQN
        RainbowDQNConfig ReBRAC ReBRACAlgorithm ReBRACConfig RecurrentPPO RecurrentPPOAlgorithm RecurrentPPOConfig SAC
        SACAlgorithm SACConfig TD3 TD3Algorithm TD3BC TD3BCAlgorithm TD3BCConfig TD3Config TQC TQCAlgorithm TQCConfig
        TRPO TRPOAlgorithm TRPOConfig
        IPPO IPPOAlgorithm IPPOConfig IndependentQ IndependentQAlgorithm
        IndependentQConfig MAPPO MAPPOAlgorithm MAPPOConfig QMIX QMIXAlgorithm QMIXConfig VDN VDNAlgorithm VDNConfig
        RecurrentIPPO RecurrentIPPOAlgorithm RecurrentIPPOConfig RecurrentMAPPO RecurrentMAPPOAlgorithm
        RecurrentMAPPOConfig""",
    "rl_training.envs": """Abilities BACKENDS EnvConfig EnvStep GoalDynamics GymnasiumEnv Lesson LocalEnv NATIVE NativeDynamics
        NativeEnv RandomDynamics VectorEnv WrapperConfig check make_env register_backend register_native
        AgentSettings NativeTeamEnv TeamDynamics TeamStep""",
    "rl_training.data": """Dataset DatasetError Episodes Finding Moments NStep NextAction Provenance ReferenceScore
        Statistics convert info lint""",
    "rl_training.experience": """StoreContext Experience ExperienceSettings HindsightSettings LoggedSteps Mixture Replay
        ReplaySettings RewardScaling Rollout RolloutSettings RowLog Segment register_store""",
    "rl_training.runtime": """Callback Collector EnvCollector Episode EvalResult HealthCheck NativeCollector NonFiniteError
        Phase Progress make_collector
        StopOnReturn Streams Trainer Work build_update evaluate resolve_compile""",
    "rl_training.evaluation": """BanditLog Diagnostics EpisodeLog Estimate EstimatorRow Improvement Interval Profile
        Report bootstrap_interval compare_bandit compare_episodes cross_fit diagnose_bandit diagnose_episodes
        direct_method doubly_robust evaluate_bandit evaluate_episodes fit_ridge fitted_q fitted_value holm interval
        inverse_propensity iqm normalized_score off_policy optimality_gap paired_difference per_decision_importance_sampling
        performance_profile probability_of_improvement rank ratio_moments self_normalized sequential_doubly_robust
        stratified_interval switch_doubly_robust
        trajectory_importance_sampling weighted_importance_sampling weighted_per_decision worst_case_interval
        cross_fit_values fit_values step_sample_sizes worst_case_episodes""",
    "rl_training.config": """ConfigError RunConfig config_from_keywords copy_preset list_presets load_config_values
        preset_path register_algorithm""",
    "rl_training.experiment": """Checkpoint CheckpointError RecordVideo RunComparison RunDirectory RunRecord compare_runs
        find_checkpoint load_checkpoint remove_runs runs save_checkpoint write_report""",
    "rl_training.export": "About Exported FORMATS check_exported check_target export_policy",
    "rl_training.api": """A2C APPO AWAC Agent BC BCQ BEAR C51 CQL CalQL CrossQ DDPG DQN DiscreteBCQ DiscreteCQL
        DiscreteIQL DiscreteSAC DoubleDQN DuelingDQN IMPALA IQL IQN NStepDQN NoisyDQN PPO PQN PrioritizedDQN QRDQN REDQ
        RLPD RainbowDQN ReBRAC RecurrentPPO SAC TD3 TD3BC TQC Stacked TRPO TrainResult load make_data make_data_like
        stacked IPPO IndependentQ MAPPO QMIX RecurrentIPPO RecurrentMAPPO VDN write_hub_card""",
    "rl_training.bench": """LEARNING LEARNING_SUITES LearningCell OptionCell SPEED SPEED_SUITES SpeedCell""",
    "rl_training.tuning": "TuneResult tune",
    "rl_training.cli": "main",
    "rl_training.distributed": "SampledEnv data_parallel",
    "rl_training.extending": """ActorCriticAlgorithm ActorCriticConfig ContinuousAlgorithm OffPolicyAlgorithm
        OffPolicyConfig OnPolicyAlgorithm OnPolicyConfig TargetNetworks TargetedConfig frozen_copy register_algorithm
        register_backend register_store""",
    "rl_training.core.ranges": """Count Natural NonNegative Positive PositiveSchedule PositiveShare Real RealSchedule Several
        Share ShareSchedule""",
}


def in_fresh_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("package", SURFACE)
def test_public_names(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == sorted(SURFACE[package].split())
    assert all(hasattr(module, name) for name in module.__all__)


def test_every_package_is_listed() -> None:
    root = Path(rl_training.__file__).parent
    packages = {f"rl_training.{path.parent.name}" for path in root.glob("*/__init__.py")}
    assert packages | {"rl_training", "rl_training.core.ranges", "rl_training.extending"} == set(SURFACE)


def imported_names(source: str) -> set[tuple[str, str]]:
    """The modules of the package that a program imports from, with the names; "" where it imports a whole module."""
    found = set[tuple[str, str]]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rl_training"):
            found |= {(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names if alias.name.startswith("rl_training")}
    return found


@pytest.mark.parametrize(
    "example", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.relative_to(EXAMPLES).as_posix()
)
def test_examples_import_public_names_only(example: Path) -> None:
    page = (EXAMPLES.parent / "docs/stability.md").read_text(encoding="utf-8")
    packages = ["algorithms", "envs", "data", "evaluation", "models", "functional", "core", "core.ranges", "extending"]
    assert "names that `rl_training.algorithms`, " in page
    assert all(f"`.{package}`" in page for package in packages[1:])
    public = {("rl_training", name) for name in SURFACE["rl_training"].split()} | {("rl_training", "")}
    public |= {(f"rl_training.{p}", name) for p in packages for name in SURFACE[f"rl_training.{p}"].split()}
    public |= {("rl_training.runtime", name) for name in ("Trainer", "Episode")}  # of callbacks
    imported = imported_names(example.read_text(encoding="utf-8"))
    assert bool(imported) == (example.parent.name != "text_agent")  # which speaks JSON, and imports nothing of ours
    assert imported - public == set()


@pytest.mark.parametrize("package", SURFACE)
def test_public_classes_and_functions_have_docstrings(package: str) -> None:
    module = import_module(package)
    things = {name: getattr(module, name) for name in module.__all__}
    made = {name: x for name, x in things.items() if getattr(x, "__module__", None) == "rl_training.api.names"}
    assert [name for name, x in made.items() if not vars(x)["__doc__"]] == []
    written = {name: x for name, x in things.items() if inspect.isclass(x) or inspect.isfunction(x)}
    # From the source: dataclasses and named tuples make up a docstring where there is none.
    trees = {
        name: ast.parse(textwrap.dedent(inspect.getsource(x))).body[0]
        for name, x in written.items()
        if name not in made
    }
    assert written or package == "rl_training.core.ranges"  # which are annotated numbers
    assert [name for name, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_the_package_is_typed() -> None:
    assert (Path(rl_training.__file__).parent / "py.typed").is_file()


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, rl_training, rl_training.cli; print([m for m in ('torch', 'gymnasium') if m in sys.modules])"
    assert in_fresh_python(code) == "[]"


def test_importing_the_maths_imports_nothing_above_it_until_asked() -> None:
    code = """
import sys
import rl_training.algorithms
print(sorted({m.split('.')[1] for m in sys.modules if m.startswith('rl_training.')}))
from rl_training.algorithms import A2C
from rl_training import PPO
print(A2C.__module__, PPO.__module__)
"""
    lower, homes = in_fresh_python(code).splitlines()
    assert lower == "['algorithms', 'core', 'functional', 'models']"
    assert homes == "rl_training.api.names rl_training.api.names"


def test_managed_classes_are_the_same_everywhere() -> None:
    algorithms, api = import_module("rl_training.algorithms"), import_module("rl_training.api")
    names = [name for name, thing in vars(api).items() if isinstance(thing, type) and issubclass(thing, api.Agent)]
    assert len(names) == 1 + len(ALGORITHMS)
    for name in set(names) - {"Agent"}:
        assert getattr(rl_training, name) is getattr(algorithms, name) is getattr(api, name)
        assert issubclass(getattr(rl_training, name), rl_training.Agent)


def test_dir_shows_the_public_names() -> None:
    assert sorted(dir(rl_training)) == sorted([*rl_training.__all__, *rl_training.SUBPACKAGES, "__version__"])


def test_dotted_names_resolve_after_importing_the_package_alone() -> None:
    code = """
import sys, rl_training
print([m for m in sys.modules if m.startswith('rl_training.')])
print(rl_training.functional.__name__, rl_training.core.Schedule.__name__, rl_training.envs.check.__name__)
print(all(getattr(rl_training, name).__name__ == f'rl_training.{name}' for name in rl_training.SUBPACKAGES))
"""
    assert in_fresh_python(code).splitlines() == ["[]", "rl_training.functional Schedule check", "True"]


@pytest.mark.parametrize("package", ["rl_training", "rl_training.algorithms"])
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'DDPPO'"):
        _ = import_module(package).DDPPO


def test_the_stubs_are_as_their_script_writes_them() -> None:
    stale = runpy.run_path(str(Path(__file__).parent.parent / "scripts/make_stubs.py"))["stale"]
    assert list(stale()) == [], "run python scripts/make_stubs.py"


RENAMED = [
    ("core", "Also", "Periodic"),
    ("core", "Workers", "Ranks"),
    ("algorithms", "RLPDAlgorithm", "SACAlgorithm"),
    ("extending", "TargetedAlgorithm", "ContinuousAlgorithm"),
]


@pytest.mark.parametrize(("module", "old", "new"), RENAMED)
def test_a_renamed_name_works_and_warns_once(module: str, old: str, new: str) -> None:
    package = import_module(f"rl_training.{module}")
    package.__dict__.pop(old, None)  # another test may have asked for it
    with pytest.warns(FutureWarning, match=f"{module}.{old} is now {new}: the old name goes with 0.3") as told:
        assert getattr(package, old) is getattr(package, new)
    assert told[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        assert getattr(package, old) is getattr(package, new)
    assert old not in package.__all__

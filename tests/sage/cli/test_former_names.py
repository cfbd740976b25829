"""Former names of commands and options do what the present ones do, and the help does not show them."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from sage.cli.main import build_parser
from sage.cli.parser import Parser

PROMISED = (  # in pages and programs of users, word for word
    'route --role coder --task "fix it" --probe-calls 3 --probe-cost 0.5',
    "outcome ID --quality 1 --cost 0.03 --latency 11",
    "outcome ID --correct",
    "explain ID --policy a.safetensors b.safetensors",
    "log erase --task T --yes",
    "log digest",
    "data import swebench FILE",
    "data info TABLE --json",
    "rl collect-synth --rows 80 --epsilon 0.3 --db a.db",
    "rl replay --outcomes t.npz --policy epsilon:0.3 --rows 20000 --output rows.jsonl",
    "rl export --output datasets/routing_v1.jsonl --cascades --source ci --since 2026-01-31",
    "rl verifiers --out rates.json",
    "rl analyze-rewards --data datasets/routing_v1.jsonl --out datasets/reward_report.json",
    "rl train-table --data rows.jsonl --out p.bin",
    "rl train-dr --data datasets/routing_v1.jsonl --out memory/rl/policy_dr.safetensors --holdout 0.8",
    "rl train-bc --data rows.jsonl --out p.bin --updates 3",
    "rl train-cql --data rows.jsonl --out p.bin --updates 3",
    "rl train-text --data rows.jsonl --out p.bin --embed MODEL.onnx --tokenizer tokenizer.json",
    "rl train-cascade --data e.jsonl --out c.bin --price 0.2 --learner fitted-q-wide",
    "rl eval-offline --data rows.jsonl --checkpoint p.bin --out e.json --interval fixed-n",
    "rl gate --data rows.jsonl --checkpoint p.bin --against static --allow-synthetic --out g.json --floor 0.5",
    "rl frontier --data rows.jsonl --out frontier.html",
    "rl plausible --data rows.jsonl --out plausible.json --most 2 --checkpoint p.bin",
    "rl plan --data rows.jsonl --gain 0.02 --exploration 0.1,0.3 --among 2",
    "report --out report.html --evaluation datasets/offline_eval_dr.json",
    "bench --compare-policy --checkpoint p.bin --run-pack-dir DIR --out bench.json",
    "bench --compare-policy --live --checkpoint p.bin --models models.yaml --db sage.db --tasks 20 --seed 1",
    "bench --ablations --run-pack-dir DIR",
    "bench verify DIR",
    "sim doctor --json",
    "sim generate --count 20 --out tasks.jsonl",
    "sim run --tasks tasks.jsonl --workers 4 --docker --limit 5 --deadline 60 --models fitted.json",
    "sim train --models fitted.json --out runs/sim",
    "sim bench --checkpoint runs/sim --models invented",
    "models add NAME --file model.gguf --sha256 HEX",
    "keys add NAME --budget-usd 5 --per day",
    'run "add a test" --budget-usd 1',
    "doctor --json",
    "serve --port 0 --workers 2",
)
SAME = (  # former, and present
    ('route --role coder --probe-cost 0.5', "log route --role coder --probe-cost-usd 0.5"),
    ("outcome ID --cost 1 --latency 2", "log outcome ID --cost-usd 1 --latency-s 2"),
    ("explain ID", "log explain ID"),
    ("log erase --task T", "log erase --task-id T"),
    ("data import csv FILE", "log import csv FILE"),
    ("data info TABLE", "log info TABLE"),
    ("rl export --output rows.jsonl", "log export --out rows.jsonl"),
    ("rl replay --outcomes T --output=rows.jsonl", "lab replay --outcomes T --out rows.jsonl"),
    ("rl collect-synth --epsilon 0.3", "lab collect-synth --exploration 0.3"),
    ("rl verifiers", "lab verifiers"),
    ("rl analyze-rewards --data D --out O", "lab analyze-rewards --data D --out O"),
    ("rl frontier --data D", "lab frontier --data D"),
    ("rl plausible --data D --out O", "lab plausible --data D --out O"),
    ("rl plan --data D --gain 0.1", "lab plan --data D --gain 0.1"),
    ("report --evaluation E", "report --proof E"),
    ("sim run --docker --deadline 5 --models M", "sim run --sandbox docker --deadline-s 5 --fitted-models M"),
    ("sim audit --docker --sample 3", "sim audit --sandbox docker --limit 3"),
    ("sim generate --out T --docker", "sim generate --out T --sandbox docker"),
    ("sim train --out R --models M", "sim train --out R --fitted-models M"),
    ("sim bench --models M --splits a b", "sim bench --fitted-models M --split a b"),
)  # fmt: skip
LEARNERS = [
    *((f"train-{name}", f"--learner {name}", "") for name in ("table", "dr", "bc", "cql", "text", "cascade")),
    ("train-bc", "--learner bc", "--updates 3"),
    ("train-text", "--learner text", "--embed E --tokenizer T"),
    ("train-cascade --price 0.2 --learner dqn", "--learner cascade --quality-per-usd 0.2 --method dqn", ""),
]


FORMER = Path(__file__).with_name("commands_of_0_2_0.txt").read_text(encoding="utf-8").splitlines()


def parsed(line: str) -> argparse.Namespace:
    words = shlex.split(line)
    return build_parser(words).parse_args(words)


@pytest.mark.parametrize("line", FORMER)
def test_every_command_and_option_of_version_0_2_0_is_accepted(line: str) -> None:
    command, _, options = line.partition(":")
    assert not set(options.split()) - set(parser_of(command)._option_string_actions)


@pytest.mark.parametrize("line", PROMISED)
def test_a_promised_command_parses_as_it_stands(line: str) -> None:
    assert callable(parsed(line).func)


@pytest.mark.parametrize(("former", "present"), SAME)
def test_a_former_name_means_the_same(former: str, present: str) -> None:
    before, now = vars(parsed(former)), vars(parsed(present))
    for name in ("command", "action"):
        before.pop(name, None)
        now.pop(name, None)
    assert before == now


@pytest.mark.parametrize(("former", "present", "more"), LEARNERS)
def test_a_former_learner_means_the_same(former: str, present: str, more: str) -> None:
    before = vars(parsed(f"rl {former} --data D --out O {more}"))
    now = vars(parsed(f"train {present} --data D --out O {more}"))
    assert {name: now[name] for name in before if name not in ("command", "action")} == {
        name: value for name, value in before.items() if name not in ("command", "action")
    }
    left_out = {name: value for name, value in now.items() if name not in before}
    assert set(left_out.values()) <= {None}


def parser_of(command: str) -> argparse.ArgumentParser:
    """Returns the parser of a command, such as "log erase"."""
    words = command.split()
    parser = build_parser(words)
    for word in words:
        (actions,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = actions.choices[word]
    return parser


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    inner = [
        sub
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for sub in action.choices.values()
    ]
    return [parser, *(one for sub in inner for one in parsers(sub))]


def test_the_help_shows_no_former_name_of_an_option() -> None:
    former = {"--output", "--cost", "--latency", "--probe-cost", "--price", "--deadline", "--docker", "--evaluation"}
    former |= {"--epsilon", "--splits", "--ablations", "--live"}
    for parser in parsers(build_parser()):
        assert isinstance(parser, Parser)
        assert not former & set(parser.format_help().replace("[", " ").replace("]", " ").split()), parser.prog


def test_every_hidden_name_of_an_option_is_compared_with_its_present_one() -> None:
    compared = {word for former, _ in SAME for word in former.replace("=", " ").split()} | {"--price"}  # of a learner
    for parser in parsers(build_parser()):
        shown = {name for action in parser._actions for name in action.option_strings}
        assert not set(parser._option_string_actions) - shown - compared, parser.prog

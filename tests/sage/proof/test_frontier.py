"""The cost-quality curve of a log: where the points lie, and how they are drawn."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from sage.evidence.objective import usd_per_task
from sage.evidence.task_evidence import EvaluationError
from sage.proof.frontier import cost_quality_frontier, round_down
from sage.report.frontier_page import cost_axis, render_page, render_svg
from tests.sage.rl.made_logs import made_log

PRICES = (0.40, 0.10, 0.02)
TRUTH = {"code": (0.7, 0.72, 0.3), "prose": (0.7, 0.5, 0.3)}


@pytest.fixture(scope="module")
def frontier():
    log = made_log(3_000, truth=TRUTH, prices=PRICES, epsilon=0.5)
    gone = np.arange(len(log)) % 100 == 0
    return cost_quality_frontier(
        replace(log, cost_usd=np.where(gone, np.nan, log.cost_usd)), objective=usd_per_task(0.30)
    )


def test_single_models_lie_where_they_are(frontier):
    assert (frontier.num_rows, frontier.left_out_rows) == (2_970, 30)
    found = {point.name: (point.quality, point.cost_usd) for point in frontier.models}
    truth = {"always big": (0.7, 0.4), "always mid": (0.61, 0.1), "always small": (0.3, 0.02)}
    for name, expected in truth.items():
        assert found[name] == pytest.approx(expected, abs=0.04)
    assert frontier.static.quality == found["always big"][0]
    assert frontier.static.quality_low == frontier.static.quality_high == frontier.static.quality  # no difference


def test_the_curve_runs_from_quality_to_cost_and_is_better_than_one_model(frontier):
    first, last = frontier.curve[0], frontier.curve[-1]
    assert first.quality > last.quality + 0.2
    assert first.cost_usd > last.cost_usd + 0.15
    assert last.cost_usd == pytest.approx(0.02, abs=0.01)
    assert all(point.quality_low <= point.quality <= point.quality_high for point in frontier.curve)
    # mid for code and big for prose: as good as big, at five eighths of its cost
    assert any(point.quality > 0.66 and point.cost_usd < 0.30 for point in frontier.curve)


def test_objectives_are_points_on_the_curve(frontier):
    budget, margin, same = frontier.objectives
    assert budget.name == "best quality at no more than 0.3 USD per task"
    assert budget.usd_per_task < 0.30
    assert budget.cost_usd == pytest.approx(0.25, abs=0.03)
    assert margin.name == "at most 1.0 points worse in quality, as cheap as possible"
    assert same.name == "best quality at no more than 0.39 USD per task"  # what the static table costs, rounded down
    assert budget.usd_worth in [point.usd_worth for point in frontier.curve]


def test_the_picture_holds_every_mark_and_escapes_names(frontier):
    values = frontier.to_json()
    values["models"][0]["name"] = "always <big> & dear"
    picture = render_svg(values)
    root = ET.fromstring(picture)
    spaces = "{http://www.w3.org/2000/svg}"
    titles = [node.text for node in root.iter(f"{spaces}title")]
    assert titles == [point["name"] for point in (values["static"], *values["objectives"], *values["models"])]
    band = root.find(f"{spaces}polygon").get("points").split()
    assert len(band) == 2 * len(values["curve"])
    page = render_page(values)
    assert "&lt;big&gt; &amp; dear" in page
    assert page.count("<tr>") == 1 + len(titles) + len(values["curve"])
    assert "Synthetic data" not in page
    assert "Synthetic data" in render_page(values | {"evidence": False})
    assert json.loads(json.dumps(values))["curve"][0]["name"] == "a dollar counts as 0"


def test_costs_of_a_wide_range_are_drawn_on_a_logarithmic_scale():
    place, logarithmic = cost_axis([0.01, 0.1, 1.0])
    assert logarithmic
    assert place(0.1) - place(0.01) == pytest.approx(place(1.0) - place(0.1))
    place, logarithmic = cost_axis([0.0, 0.1, 1.0])
    assert not logarithmic
    assert place(0.5) - place(0.0) == pytest.approx(place(1.0) - place(0.5))


def test_a_handful_of_tasks_has_no_curve():
    with pytest.raises(EvaluationError, match="the log has outcomes of 9 tasks, fewer than 10"):
        cost_quality_frontier(made_log(9, prices=PRICES))


@pytest.mark.parametrize(("usd", "rounded"), [(0.4321, 0.43), (43.9, 43.0), (0.00098, 0.00098), (1.0, 1.0)])
def test_a_budget_that_nobody_set_has_two_digits(usd, rounded):
    assert round_down(usd) == pytest.approx(rounded)

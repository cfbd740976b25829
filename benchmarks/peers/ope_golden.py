"""Off-policy estimates by a second implementation, written down for `tests/base/evaluation/test_policy_value_golden.py`.

python3 benchmarks/peers/ope_golden.py

Writes tests/golden/ope.json (or --out). It is no library: the open bandit pipeline (obp) pins versions that cannot be
installed beside ours, and was not tried elsewhere. It is a naive implementation that shares nothing with the package: plain
Python, a loop per row, no NumPy, sums over paths instead of recursions. Influence values come from no formula: every
estimate is a function of the weights of the clusters, and is differentiated by a complex step, which is exact to rounding.
"""

import argparse
import json
import math
import random
from collections.abc import Callable
from pathlib import Path

GOLDEN = Path(__file__).parent.parent.parent / "tests" / "golden" / "ope.json"
NUM_ROWS, NUM_ACTIONS, NUM_EPISODES, GAMMA, SWITCH_AT = 60, 3, 25, 0.93, 1.4
STEP = 1e-30
Weights = list[complex]
Statistic = Callable[[Weights], complex]


def draw_distribution(rng: random.Random) -> list[float]:
    parts = [rng.uniform(0.15, 1.0) for _ in range(NUM_ACTIONS)]
    return [part / math.fsum(parts) for part in parts]


def draw_bandit(rng: random.Random) -> dict:
    rows = {"actions": [], "rewards": [], "propensities": [], "features": [], "clusters": [], "target": []}
    for _ in range(NUM_ROWS):
        propensities, features = draw_distribution(rng), [rng.gauss(0, 1), rng.gauss(0, 1)]
        action = rng.choices(range(NUM_ACTIONS), propensities)[0]
        rows["actions"].append(action)
        rows["rewards"].append(min(1.0, max(0.0, 0.4 + 0.2 * action + 0.1 * features[0] + rng.gauss(0, 0.1))))
        rows["propensities"].append(propensities)
        rows["features"].append(features)
        rows["clusters"].append(rng.randrange(20))
        rows["target"].append(draw_distribution(rng))
    return rows


def draw_episodes(rng: random.Random) -> list[dict]:
    return [
        {
            "rewards": [rng.gauss(1, 1) for _ in range(length)],
            "propensities": [rng.uniform(0.3, 0.9) for _ in range(length)],
            "target": [rng.uniform(0.3, 0.9) for _ in range(length)],
            "q": [rng.gauss(2, 1) for _ in range(length)],
            "v": [rng.gauss(2, 1) for _ in range(length)],
        }
        for length in (rng.randint(1, 6) for _ in range(NUM_EPISODES))
    ]


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss-Jordan with pivoting."""
    size = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(rows[i][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for i in range(size):
            if i != column:
                factor = rows[i][column] / rows[column][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[column], strict=True)]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def ridge(log: dict, penalty: float = 1.0) -> list[list[float]]:
    """Normal equations with an unpenalised constant, per action, on all rows."""
    coefficients = []
    for action in range(NUM_ACTIONS):
        rows = [
            ([1.0, *x], y)
            for x, a, y in zip(log["features"], log["actions"], log["rewards"], strict=True)
            if a == action
        ]
        gram = [[sum(x[i] * x[j] for x, _ in rows) + penalty * (i == j > 0) for j in range(3)] for i in range(3)]
        coefficients.append(solve(gram, [sum(x[i] * y for x, y in rows) for i in range(3)]))
    return [[c[0] + c[1] * x[0] + c[2] * x[1] for c in coefficients] for x in log["features"]]


def bandit_statistics(log: dict, predictions: list[list[float]]) -> dict[str, Statistic]:
    """Every estimate as a function of the weights of the clusters."""
    ids = sorted(set(log["clusters"]))

    def over_rows(term: Callable[[int], float], normaliser: Callable[[int], float]) -> Statistic:
        def statistic(weights: Weights) -> complex:
            top, bottom = 0j, 0j
            for i in range(NUM_ROWS):
                weight = weights[ids.index(log["clusters"][i])]
                top += weight * term(i)
                bottom += weight * normaliser(i)
            return top / bottom

        return statistic

    def ratio(i: int, action: int) -> float:
        return log["target"][i][action] / log["propensities"][i][action]

    def weight_of(i: int) -> float:
        return ratio(i, log["actions"][i])

    def model(i: int) -> float:
        return sum(log["target"][i][a] * predictions[i][a] for a in range(NUM_ACTIONS))

    def residual(i: int) -> float:
        return log["rewards"][i] - predictions[i][log["actions"][i]]

    def switched(i: int) -> float:
        """As in the paper: importance weighting and model on the small ratios, the model alone on the large ones."""
        total = 0.0
        for action in range(NUM_ACTIONS):
            small = ratio(i, action) <= SWITCH_AT
            if small and action == log["actions"][i]:
                total += weight_of(i) * residual(i)
            total += log["target"][i][action] * predictions[i][action]
        return total

    return {
        "direct method": over_rows(model, lambda i: 1.0),
        "IPS": over_rows(lambda i: weight_of(i) * log["rewards"][i], lambda i: 1.0),
        "SNIPS": over_rows(lambda i: weight_of(i) * log["rewards"][i], weight_of),
        "doubly robust": over_rows(lambda i: model(i) + weight_of(i) * residual(i), lambda i: 1.0),
        "SWITCH-DR": over_rows(switched, lambda i: 1.0),
    }


def episode_statistics(episodes: list[dict]) -> dict[str, Statistic]:
    """The same for episodes; a cluster is an episode."""
    longest = max(len(episode["rewards"]) for episode in episodes)

    def product(episode: dict, steps: int) -> float:
        result = 1.0
        for t in range(min(steps, len(episode["rewards"]))):
            result *= episode["target"][t] / episode["propensities"][t]
        return result

    def episode_return(episode: dict) -> float:
        return sum(GAMMA**t * reward for t, reward in enumerate(episode["rewards"]))

    def per_decision(episode: dict) -> float:
        return sum(GAMMA**t * product(episode, t + 1) * reward for t, reward in enumerate(episode["rewards"]))

    def robust(episode: dict) -> float:
        """The sum over steps instead of the recursion: what values leave over, weighted, and the values themselves."""
        total = 0.0
        for t in range(len(episode["rewards"])):
            left_over = episode["rewards"][t] - episode["q"][t]
            total += GAMMA**t * (product(episode, t + 1) * left_over + product(episode, t) * episode["v"][t])
        return total

    def mean(term: Callable[[dict], float], normaliser: Callable[[dict], float] = lambda e: 1.0) -> Statistic:
        return lambda weights: (
            sum(w * term(e) for w, e in zip(weights, episodes, strict=True))
            / sum(w * normaliser(e) for w, e in zip(weights, episodes, strict=True))
        )

    def weighted_steps(weights: Weights) -> complex:
        total = 0j
        for t in range(longest):
            top, bottom = 0j, 0j
            for w, episode in zip(weights, episodes, strict=True):
                bottom += w * product(episode, t + 1)
                if t < len(episode["rewards"]):
                    top += w * product(episode, t + 1) * episode["rewards"][t]
            total += GAMMA**t * top / bottom
        return total

    def whole(episode: dict) -> float:
        return product(episode, longest)

    return {
        "trajectory IS": mean(lambda e: whole(e) * episode_return(e)),
        "weighted IS": mean(lambda e: whole(e) * episode_return(e), whole),
        "per-decision IS": mean(per_decision),
        "weighted per-decision IS": weighted_steps,
        "fitted Q alone": mean(lambda e: e["v"][0]),
        "sequential DR": mean(robust),
    }


def t_quantile(probability: float, degrees: int) -> float:
    """Simpson's rule on the density, and bisection."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)

    def density(x: float) -> float:
        return scale * (1 + x * x / degrees) ** (-(degrees + 1) / 2)

    def integral(end: float, pieces: int = 2000) -> float:
        h = end / pieces
        inner = sum((4 if i % 2 else 2) * density(i * h) for i in range(1, pieces))
        return 0.5 + h / 3 * (density(0.0) + inner + density(end))

    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if integral(middle) < probability else (low, middle)
    return low


def measure(statistic: Statistic, clusters: int) -> dict:
    """Value, influence by a complex step, standard error and the 95 % interval by Student's t, as the page defines it."""
    value = statistic([1 + 0j] * clusters).real
    influence = []
    for c in range(clusters):
        weights = [1 + STEP * 1j if i == c else 1 + 0j for i in range(clusters)]
        influence.append(clusters * statistic(weights).imag / STEP)
    error = math.sqrt(sum(x * x for x in influence) / (clusters - 1) / clusters)
    kurtosis = clusters * sum(x**4 for x in influence) / sum(x**2 for x in influence) ** 2
    degrees = min(clusters - 1, math.floor(2 * clusters / (kurtosis - 1)))
    width = t_quantile(0.975, degrees) * error
    return {
        "value": value,
        "influence": influence,
        "standard_error": error,
        "low": value - width,
        "high": value + width,
    }


def effective_size(weights: list[float]) -> float:
    return sum(weights) ** 2 / sum(weight * weight for weight in weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=GOLDEN)
    out = parser.parse_args().out
    rng = random.Random(0)
    log, episodes = draw_bandit(rng), draw_episodes(rng)
    predictions = ridge(log)
    ids = sorted(set(log["clusters"]))
    cluster_weights = [0.0] * len(ids)
    for i, action in enumerate(log["actions"]):
        cluster_weights[ids.index(log["clusters"][i])] += log["target"][i][action] / log["propensities"][i][action]
    golden = {
        "implementation": "naive, plain Python, in benchmarks/peers/ope_golden.py",
        "gamma": GAMMA,
        "switch_at": SWITCH_AT,
        "bandit": {
            "log": log,
            "predictions": predictions,
            "effective_sample_size": effective_size(cluster_weights),
            "largest_weight_share": max(cluster_weights) / sum(cluster_weights),
            "estimates": {k: measure(s, len(ids)) for k, s in bandit_statistics(log, predictions).items()},
        },
        "sequential": {
            "episodes": episodes,
            "estimates": {k: measure(s, NUM_EPISODES) for k, s in episode_statistics(episodes).items()},
        },
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(golden, separators=(",", ":"))
    out.write_text(text.replace("],[", "],\n[").replace('],"', '],\n"').replace("},", "},\n") + "\n")
    print(f"wrote {out.name}: {len(text):,} bytes")


if __name__ == "__main__":
    main()

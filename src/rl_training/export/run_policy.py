"""A policy in a file, run with NumPy and, for .onnx, onnxruntime; `rl-training export` writes this file beside it.

    from run_policy import Policy

    policy = Policy("policy.onnx")
    action, state = policy.predict(observation)

`python run_policy.py policy.onnx --check` recomputes the parity file that was written with the policy. This file needs
neither the library that trained the policy nor torch. Copy it, with the policy, wherever you need them.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]
TOLERANCE = 1e-5  # of every output, relative to the largest number of its row where that is above 1
FORBIDDEN = 1e7  # beyond it are the scores of forbidden actions, which are no size to compare with
FORMAT = 1


class Policy:
    """A policy that was exported to a .onnx or .npz file; it keeps no state between calls."""

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        kind = Path(path).suffix
        if kind not in LOADERS:
            raise ValueError(f"{path} ends with {kind!r}: give a policy as .onnx or .npz")
        if not Path(path).is_file():
            raise ValueError(f"{path} does not exist: give the file that the export wrote")
        self.use(*LOADERS[kind](str(path), threads))

    def use(self, spec: dict, compute: Callable[[Arrays], list[np.ndarray]]) -> None:
        """Sets the description of inputs and outputs, and the function that computes these from those."""
        if spec.get("format") != FORMAT:
            raise ValueError(
                f"the policy has format {spec.get('format')!r} and this file reads {FORMAT}: export it again"
            )
        self.spec, self.compute = spec, compute
        self.leaves = [Leaf(i["name"], i["key"], tuple(i["shape"]), np.dtype(i["dtype"])) for i in spec["inputs"]]
        self.by_key = spec["dict"]
        self.memory = [(part["name"], tuple(part["shape"])) for part in spec["memory"]]
        self.outputs = [part["name"] for part in spec["outputs"]]
        self.scales = {part["name"]: part["scale"] for part in spec["outputs"]}  # of the numbers they are computed from
        self.choices = spec["choices"]  # of the parts of a masked action

    def predict(
        self, obs: Any, state: tuple[np.ndarray, ...] | None = None, episode_start: Any = None
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Returns the action for the environment, and the memory of a recurrent policy (None without one).

        `obs` is one observation or a batch with a leading dimension, a mapping where the environment has a Dict. Hand
        the memory back as `state` with the next observation, and set `episode_start`, a flag or one per row, where an
        episode begins. Without `state` all rows begin one.
        """
        inputs, single = self.read(obs)
        if self.memory:
            self.remember(inputs, state, episode_start)
        elif state is not None:
            raise ValueError("state was given, but this policy has no memory: leave it out")
        results = self.compute(inputs)
        memory = tuple(results[len(self.outputs) :]) or None
        return (results[0][0] if single else results[0]), memory

    def run(self, inputs: Arrays) -> Arrays:
        """Returns all outputs by name, with the distribution's parameters, for batches of all inputs by name."""
        names = [*self.outputs, *(f"next_{name}" for name, _ in self.memory)]
        return dict(zip(names, self.compute(inputs), strict=True))

    def read(self, obs: Any) -> tuple[Arrays, bool]:
        """Returns observations as arrays by name of the input, each with a leading dimension, and if it was a single one."""
        if not self.by_key:
            leaf = self.leaves[0]
            array, single = leaf.read(obs)
            return {leaf.name: array}, single
        if not isinstance(obs, Mapping):
            raise ValueError(f"the observation is a {type(obs).__name__}: give a mapping with the keys {self.keys}")
        missing = [key for key in self.keys if key not in obs]
        if missing:
            raise ValueError(f"the observation lacks {missing}: give a mapping with the keys {self.keys}")
        read = {leaf.name: leaf.read(obs[leaf.key]) for leaf in self.leaves}
        rows = {array.shape[0] for array, _ in read.values()}
        if len(rows) > 1 or len({single for _, single in read.values()}) > 1:
            raise ValueError("the parts of the observation have different numbers of rows: give each as many")
        inputs = {name: array for name, (array, _) in read.items()}
        if "action_mask" in obs and self.choices:
            allowed = np.split(inputs["observation.action_mask"] != 0, np.cumsum(self.choices)[:-1], axis=-1)
            if not all(part.any(-1).all() for part in allowed):
                raise ValueError("observation['action_mask'] allows no action: at least one entry must be 1")
        return inputs, next(iter(read.values()))[1]

    @property
    def keys(self) -> list[str]:
        return [leaf.key for leaf in self.leaves]

    def remember(self, inputs: Arrays, state: tuple[np.ndarray, ...] | None, episode_start: Any) -> None:
        """Adds the memory and the flags that reset it to the inputs."""
        rows = len(next(iter(inputs.values())))
        start = np.asarray(state is None if episode_start is None else episode_start, bool)
        inputs["first"] = np.ascontiguousarray(np.broadcast_to(start, (rows,)))
        if state is None:
            state = tuple(np.zeros((rows, *shape), np.float32) for _, shape in self.memory)
        for (name, shape), part in zip(self.memory, state, strict=True):
            inputs[name] = np.asarray(part, np.float32)
            if inputs[name].shape != (rows, *shape):
                raise ValueError(f"state has the shape {inputs[name].shape}: it must be {(rows, *shape)}")


class Leaf(NamedTuple):
    """An input of the policy: an observation, or one entry of a Dict."""

    name: str
    key: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def read(self, value: Any) -> tuple[np.ndarray, bool]:
        """Returns values with a leading dimension in the input's dtype, and True if a single one was given."""
        array = np.asarray(value)
        if array.dtype != self.dtype:
            if array.dtype.kind not in "biuf":
                raise ValueError(f"{self.name} has the type {array.dtype}: give numbers")
            array = array.astype(self.dtype)
        if self.dtype.kind == "f" and not math.isfinite(array.sum()) and not np.isfinite(array).all():
            raise ValueError(f"{self.name} is not finite: give real numbers, without nan and inf")
        if array.shape == self.shape:
            return array[None], True
        if array.shape[1:] != self.shape or array.ndim == 0:
            raise ValueError(
                f"{self.name} has the shape {array.shape}: it must be {self.shape}, or {('rows', *self.shape)}"
            )
        return array, False


def load_onnx(path: str, threads: int) -> tuple[dict, Callable[[Arrays], list[np.ndarray]]]:
    try:
        import onnxruntime
    except ImportError as error:
        raise ValueError(f"{path} needs onnxruntime: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    errors = onnxruntime.capi.onnxruntime_pybind11_state
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except (errors.InvalidProtobuf, errors.InvalidGraph, errors.InvalidArgument, errors.Fail) as error:
        raise ValueError(f"{path} is damaged or no .onnx file: copy it again") from error
    described = session.get_modelmeta().custom_metadata_map.get("policy")
    if described is None:
        raise ValueError(f"{path} is no policy of `rl-training export`: it has no description of its inputs")
    return json.loads(described), Session(session, onnxruntime.OrtValue.ortvalue_from_numpy).compute


class Session:
    """A policy in onnxruntime, which computes single rows in arrays that are made once: that takes an eighth less time."""

    def __init__(self, session: Any, in_place: Callable[[np.ndarray], Any]) -> None:
        self.session, self.in_place, self.lock = session, in_place, threading.Lock()
        self.names = [output.name for output in session.get_outputs()]
        self.inputs: Arrays = {}  # of one row, once there was one
        probe = np.zeros(1, np.float32)
        seen, probe[0] = in_place(probe), 1
        self.works_in_place = seen.numpy()[0] == 1  # some version of onnxruntime may copy

    def compute(self, inputs: Arrays) -> list[np.ndarray]:
        """Returns the outputs in their order; may be called by several threads."""
        one_row = self.works_in_place and len(next(iter(inputs.values()))) == 1
        if not one_row or not self.lock.acquire(blocking=False):
            return self.session.run(self.names, inputs)
        try:
            if not self.inputs:
                return self.bind(inputs)
            for name, array in self.inputs.items():
                given = inputs.get(name)
                if given is None or given.shape != array.shape or given.dtype != array.dtype:
                    return self.session.run(self.names, inputs)  # which says what is wrong
                array[...] = given
            self.session.run_with_iobinding(self.binding)
            return [part.copy() for part in self.outputs]
        finally:
            self.lock.release()

    def bind(self, inputs: Arrays) -> list[np.ndarray]:
        """Computes the outputs of one row as usual, and makes the arrays for the next."""
        outputs, self.binding = self.session.run(self.names, inputs), self.session.io_binding()
        self.inputs, self.outputs = {name: part.copy() for name, part in inputs.items()}, [p.copy() for p in outputs]
        for name, array in self.inputs.items():
            self.binding.bind_ortvalue_input(name, self.in_place(array))
        for name, array in zip(self.names, self.outputs, strict=True):
            self.binding.bind_ortvalue_output(name, self.in_place(array))
        return outputs


def load_npz(path: str, threads: int) -> tuple[dict, Callable[[Arrays], list[np.ndarray]]]:
    arrays = read_npz(path)
    if "policy" not in arrays:
        raise ValueError(f"{path} is no policy of `rl-training export`: it has no description of its inputs")
    spec = json.loads(str(arrays.pop("policy")))
    network = DenseNetwork(spec, arrays)
    return spec, network.compute


def read_npz(path: str | Path) -> Arrays:
    """Returns the arrays in a file by name; raises ValueError if it is damaged."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is damaged or no .npz file: copy it again") from error


LOADERS: dict[str, Callable[[str, int], tuple[dict, Callable[[Arrays], list[np.ndarray]]]]] = {
    ".onnx": load_onnx,
    ".npz": load_npz,
}


class DenseNetwork:
    """A policy of dense layers, from raw observations to actions of the environment, in NumPy."""

    def __init__(self, spec: dict, arrays: Arrays) -> None:
        network = spec["network"]
        self.arrays, self.head, self.action = arrays, network["head"], network["action"]
        self.inputs = [
            (encode, *(arrays.get(f"{part}.{encode['name']}") for part in ("mean", "scale")))
            for encode in network["inputs"]
        ]
        self.layers = []
        for index, layer in enumerate(network["layers"]):
            weight = np.ascontiguousarray(arrays[f"weight{index}"].T)
            norm = (arrays[f"norm_scale{index}"], arrays[f"norm_shift{index}"]) if layer["norm"] else None
            self.layers.append((weight, arrays[f"bias{index}"], norm, ACTIVATIONS[layer["activation"]]))

    def compute(self, inputs: Arrays) -> list[np.ndarray]:
        """Returns the action and the parameters of its distribution, in the order of the description."""
        features = [encode(inputs[how["name"]], how, mean, scale) for how, mean, scale in self.inputs]
        x = features[0] if len(features) == 1 else np.concatenate(features, -1)
        for weight, bias, norm, activation in self.layers:
            x = x @ weight + bias
            if norm is not None:
                x = x - x.mean(-1, keepdims=True)
                x = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(1e-5)) * norm[0] + norm[1]
            if activation is not None:
                x = activation(x)
        mask = inputs.get("observation.action_mask")
        action, parameters = HEADS[self.head["kind"]](x, self.head, self.arrays, mask)
        return [self.to_env(action), *parameters]

    def to_env(self, action: np.ndarray) -> np.ndarray:
        """Returns actions in the environment's units and dtype."""
        how, dtype = self.action, np.dtype(self.action["dtype"])
        if how["kind"] != "box":
            return (action + how["start"]).astype(dtype, copy=False)
        low, high = self.arrays["low"], self.arrays["high"]
        if how["rescaled"]:
            action = low + (action + 1) * np.float32(0.5) * (high - low)
        action = np.minimum(np.maximum(action, low), high)
        if dtype != np.float32:
            action = action.astype(np.float64)
            action = action if dtype.kind == "f" else np.round(action)
            action = np.clip(action, self.arrays["own_low"], self.arrays["own_high"]).astype(dtype)
        return action.reshape(len(action), *how["shape"])


def encode(x: np.ndarray, how: dict, mean: np.ndarray | None, scale: np.ndarray | None) -> np.ndarray:
    """Returns one vector of float32 per row: numbers, normalised where they are in training, or one-hot choices."""
    if how["nums"]:
        choices = (x - how["start"]).reshape(len(x), -1)
        parts = [np.eye(num, dtype=np.float32)[choices[:, i]] for i, num in enumerate(how["nums"])]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, -1)
    if mean is not None and scale is not None:
        clip = how["clip"]
        x = np.minimum(np.maximum((x - mean) * scale, -clip), clip)
    return x.reshape(len(x), -1).astype(np.float32, copy=False)


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


Result = tuple[np.ndarray, list[np.ndarray]]


def categorical(x: np.ndarray, head: dict, arrays: Arrays, mask: np.ndarray | None) -> Result:
    if mask is not None:
        x = np.where(mask != 0, x, np.float32(-1e8))
    ends = np.cumsum(head["nums"])[:-1]
    parts = [log_softmax(part) for part in (np.split(x, ends, -1) if len(ends) else [x])]
    if head["single"]:
        return parts[0].argmax(-1), parts
    return np.stack([part.argmax(-1) for part in parts], -1), [np.concatenate(parts, -1)]


def values(x: np.ndarray, head: dict, arrays: Arrays, mask: np.ndarray | None) -> Result:
    if "atoms" in arrays:
        x = (np.exp(log_softmax(x.reshape(len(x), -1, len(arrays["atoms"])))) * arrays["atoms"]).sum(-1)
    if mask is not None:
        x = np.where(mask != 0, x, np.float32(-np.inf))
    return x.argmax(-1), [x]


def gaussian(x: np.ndarray, head: dict, arrays: Arrays, mask: np.ndarray | None) -> Result:
    mean = np.tanh(x) if head["tanh_mean"] else x
    return mean, [mean, np.broadcast_to(arrays["log_std"], mean.shape)]


def squashed_gaussian(x: np.ndarray, head: dict, arrays: Arrays, mask: np.ndarray | None) -> Result:
    mean, log_std = np.split(x, 2, -1)
    return np.tanh(mean), [mean, np.clip(log_std, *head["log_std_range"])]


HEADS: dict[str, Callable[[np.ndarray, dict, Arrays, np.ndarray | None], Result]] = {
    "categorical": categorical,
    "bits": lambda x, *_: ((x > 0).astype(np.int64), [x]),
    "values": values,
    "gaussian": gaussian,
    "squashed_gaussian": squashed_gaussian,
    "deterministic": lambda x, *_: (np.tanh(x), []),
}


def gelu(x: np.ndarray) -> np.ndarray:
    erf = np.vectorize(math.erf, otypes=[np.float32])(x / math.sqrt(2))
    return x * (1 + erf) / 2


ACTIVATIONS: dict[str | None, Callable[[np.ndarray], np.ndarray] | None] = {
    None: None,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": gelu,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "leaky_relu": lambda x: np.where(x > 0, x, np.float32(0.01) * x),
}


class Parity(NamedTuple):
    """A comparison of a policy's outputs with those that its parity file expects."""

    rows: int  # observations
    largest: float  # difference of an output, relative to the largest number of its row where that is above 1
    different: int  # observations whose action, of an integer type, is another one
    whole: bool  # actions are of an integer type

    @property
    def equal(self) -> bool:
        return self.largest <= TOLERANCE and self.different == 0

    @property
    def text(self) -> str:
        actions = f", {self.different} other actions" if self.different else ", all actions equal" if self.whole else ""
        return f"{self.rows:,} observations: largest difference {self.largest:.1e} (at most {TOLERANCE:g}){actions}"


def check(policy: Policy, parity: str | Path) -> Parity:
    """Computes the outputs for the observations in a parity file again, and compares them with those that it expects."""
    arrays = read_npz(parity)
    for leaf in policy.leaves:
        given = arrays.get(f"input.{leaf.name}")
        if given is None or given.shape[2:] != leaf.shape or "output.action" not in arrays:
            raise ValueError(
                f"{parity} belongs to another policy, or is no parity file: give the one beside the policy"
            )
    return compare(policy, arrays)


def compare(policy: Policy, arrays: Arrays) -> Parity:
    """Compares outputs with those that are expected in `arrays`, the content of a parity file.

    Rows are [time, row]: a recurrent policy gets its own memory back. The first row is also computed alone.
    """
    given = {name.removeprefix("input."): part for name, part in arrays.items() if name.startswith("input.")}
    wanted = {name.removeprefix("output."): part for name, part in arrays.items() if name.startswith("output.")}
    times, rows = wanted["action"].shape[:2]
    largest, different = 0.0, 0
    for columns in (slice(None), slice(0, 1)):  # all rows at once, and one alone
        memory = {name: np.zeros((rows, *shape), np.float32)[columns] for name, shape in policy.memory}
        for time in range(times):
            outputs = policy.run({name: part[time, columns] for name, part in given.items()} | memory)
            memory = {name: outputs[f"next_{name}"] for name, _ in policy.memory}
            for name, part in wanted.items():
                found, expected = outputs[name], part[time, columns]
                if found.shape != expected.shape or found.dtype != expected.dtype:
                    raise ValueError(
                        f"{name} is {found.dtype} {found.shape}, the parity file says {expected.dtype} {expected.shape}"
                    )
                if expected.dtype.kind == "f":
                    largest = max(largest, difference(found, expected, policy.scales[name]))
                else:
                    different += int((found != expected).reshape(len(found), -1).any(-1).sum())
    return Parity(times * rows, largest, different, wanted["action"].dtype.kind != "f")


def difference(found: np.ndarray, expected: np.ndarray, scale: float) -> float:
    """Returns the largest difference, relative to `scale` or, if larger, the largest number of a row; infinity for NaN.

    Log-probabilities near 0 are differences of scores, so they are as exact as the others of their row.
    """
    rows = expected.reshape(len(expected), -1).astype(np.float64)
    sizes = np.where(np.abs(rows) < FORBIDDEN, np.abs(rows), 0.0).max(-1, keepdims=True)
    others = found.reshape(rows.shape).astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.where(others == rows, 0.0, np.abs(others - rows))  # infinities that are equal are no difference
    worst = float((apart / np.maximum(scale, sizes)).max())
    return worst if math.isfinite(worst) else math.inf


def main(arguments: list[str]) -> int:
    """Checks a policy with its parity file, or prints the action for an observation, in JSON, on standard input."""
    wrong = not arguments or arguments[1:2] not in ([], ["--check"]) or len(arguments) > 3
    if wrong or arguments[0] in ("-h", "--help"):
        print("usage: python run_policy.py POLICY --check [PARITY] | python run_policy.py POLICY < observation.json")
        return 2 if wrong else 0
    try:
        policy = Policy(arguments[0])
        if arguments[1:2] == ["--check"]:
            parity = arguments[2] if len(arguments) > 2 else f"{arguments[0]}.parity.npz"
            found = check(policy, parity)
            print(found.text)
            return 0 if found.equal else 1
        print(json.dumps(policy.predict(json.load(sys.stdin))[0].tolist()))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The training loop and its parts: collectors, evaluator, callbacks, compilation and seeds."""

from rl_training.runtime.callbacks import Callback, StopOnReturn
from rl_training.runtime.collector import Collector, EnvCollector, Episode
from rl_training.runtime.compilation import build_update
from rl_training.runtime.evaluator import EvalResult, evaluate
from rl_training.runtime.finite import NonFiniteError
from rl_training.runtime.health import HealthCheck
from rl_training.runtime.make_collector import make_collector
from rl_training.runtime.native_collector import NativeCollector
from rl_training.runtime.phases import Phase
from rl_training.runtime.progress import Progress
from rl_training.runtime.seeding import Streams
from rl_training.runtime.trainer import Trainer
from rl_training.runtime.worth_compiling import Work, resolve_compile

__all__ = [
    "Callback",
    "Collector",
    "EnvCollector",
    "Episode",
    "EvalResult",
    "HealthCheck",
    "NativeCollector",
    "NonFiniteError",
    "Phase",
    "Progress",
    "StopOnReturn",
    "Streams",
    "Trainer",
    "Work",
    "build_update",
    "evaluate",
    "make_collector",
    "resolve_compile",
]

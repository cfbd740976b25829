"""The state that requests are served with: the table, the router and the upstreams; a reload replaces it as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import aiohttp

from sage.orchestrator.file_values import ModelsFileError
from sage.orchestrator.model_router import Router
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.upstream_settings import DIALECTS
from sage.serve.feedback.shadow_answers import ShadowAnswers
from sage.serve.feedback.shadows import Shadows
from sage.serve.in_flight import censor_abandoned
from sage.serve.logbook import Logbook
from sage.serve.places import Places
from sage.upstream.breaker import Breakers
from sage.upstream.forwarding import Forwarder
from sage.upstream.metrics import Metrics
from sage.upstream.secrets import secret_of
from sage.upstream.upstreams import Target, targets_of


@dataclass
class ServingState:
    """Everything that requests are served with until the next reload; `in_flight` counts its open requests."""

    table: ModelsFile
    targets: Mapping[str, Target]
    logbook: Logbook
    forwarder: Forwarder
    shadows: Shadows
    in_flight: int = 0

    async def close(self) -> None:
        """Ends shadow calls that are under way, and writes all records that wait for the log."""
        await self.shadows.close()
        await self.logbook.close()

    def speakers(self, dialect: str, role: str) -> list[str]:
        """Returns the models that speak the dialect and serve the role, even if their upstream does not work now."""
        return [
            name
            for name, target in self.targets.items()
            if dialect in target.upstream.dialects and role in self.table.models[name].roles
        ]

    def fallbacks(self, role: str, candidates: tuple[str, ...], chosen: str) -> tuple[str, ...]:
        """Returns the candidates in the order in which they are asked: the chosen one, the table's fallback, then the
        others."""
        wished = (chosen, self.table.roles[role].fallback, *candidates)
        return tuple(dict.fromkeys(name for name in wished if name in candidates))


def read_targets(
    table: ModelsFile, local: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> dict[str, Target]:
    """Returns the upstream of every model with its key; raises ModelsFileError if a model has no upstream or a local
    model does not run, SecretError if a key is missing."""
    check_upstreams(table)
    keys = {}
    for name, model in table.models.items():
        upstream = model.upstream
        assert upstream is not None
        if upstream.local is not None and upstream.local not in local:
            raise ModelsFileError(
                f"models.{name}.upstream.local={upstream.local!r} does not run: start sage serve again"
            )
        place = f"models.{name}.upstream"
        secret = secret_of(place, variable_name=upstream.key_env, path=upstream.key_file, environment=environment)
        if secret is not None:
            keys[name] = secret.reveal()
    return targets_of(table.models, keys, local)


def check_upstreams(table: ModelsFile) -> None:
    """Raises ModelsFileError, which says how to add one, if a model has no upstream."""
    lacking = [name for name, model in table.models.items() if model.upstream is None]
    if lacking:
        cannot = (
            "has no upstream, so it cannot be served"
            if len(lacking) == 1
            else "have no upstream, so they cannot be served"
        )
        raise ModelsFileError(
            f"models.{', models.'.join(lacking)} {cannot}: in models.yaml, add `upstream: {{url: https://..., key_env: VARIABLE}}` "
            "for a provider, or `upstream: {local: NAME}` for a model that `sage models add NAME` knows"
        )


def start_local_models(table: ModelsFile, running: ExitStack) -> dict[str, str]:
    """Starts the local models that the table names, and returns their URLs by name; they end when `running` closes."""
    names = {
        model.upstream.local for model in table.models.values() if model.upstream is not None and model.upstream.local
    }
    if not names:
        return {}
    from sage.local_models.host import start

    return {name: running.enter_context(start(name)).url for name in sorted(names)}


def open_state(
    places: Places,
    session: aiohttp.ClientSession,
    metrics: Metrics,
    local: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    before: Router | None = None,
) -> ServingState:
    """Reads all files anew and returns the state; policies that the router `before` has in memory are used again if
    they are unchanged."""
    table = ModelsFile.read(places.models)
    targets = read_targets(table, local, environment)
    identity = places.identity if before is None else before.log.file.identity or places.identity
    router = Router.open(places.db, models=places.models, environment=environment, before=before, identity=identity)
    censor_abandoned(router)
    forwarder, logbook = (
        Forwarder(session, targets, Breakers(table.serve, metrics), table.serve, metrics),
        Logbook(router),
    )
    answers = ShadowAnswers(places.db.with_name(f"{places.db.name}.shadows"), table.serve.shadow_answers_s)
    return ServingState(table, targets, logbook, forwarder, Shadows(table, forwarder, logbook, answers))


def offers(targets: Mapping[str, Target]) -> str:
    """Returns one line that lists the served models of each dialect."""
    by_dialect = {
        dialect: [name for name, target in targets.items() if dialect in target.upstream.dialects]
        for dialect in DIALECTS
    }
    return "; ".join(f"{dialect}: {', '.join(names)}" for dialect, names in by_dialect.items() if names)

"""`sage keys add`, `list` and `revoke`."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sage.log.budget_settings import PERIODS, TenantBudget
from sage.log.decision_log import DecisionLog
from sage.serve.access.access import WEBHOOK
from sage.serve.access.keys import CALL, KEY_FILE, ROLES, Key, KeyFile, Keys, check_name


def add_keys(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    add = actions.add_parser("add", help="make a key; it is shown once, and only its hash is kept")
    add.add_argument("name", metavar="NAME", help="of the key, such as a person's or a machine's")
    meanings = "; ".join(f"{role}: {meaning}" for role, meaning in ROLES.items())
    add.add_argument("--role", choices=tuple(ROLES), default=CALL, help=f"(default: {CALL}) {meanings}")
    add.add_argument("--tenant", help="whose decisions, outcomes and budget it shares (default: NAME)")
    add.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="MODEL",
        help="a model name that its requests may have, and no others; give it again for more (default: any)",
    )
    add_budget(add)
    add.add_argument("--requests-per-minute", type=int, metavar="N", help="of this key (default: no limit)")
    common(add)
    add.set_defaults(func=add_key)

    budget = actions.add_parser("budget", help="set a tenant's budget; without --budget-usd, take it away")
    budget.add_argument("tenant", metavar="TENANT")
    add_budget(budget)
    common(budget)
    budget.set_defaults(func=set_budget)

    lists = actions.add_parser("list", help="show names, tenants and limits of all keys, and what was spent of budgets")
    lists.add_argument("--db", type=Path, default=Path("sage.db"), help="the log (default: sage.db)")
    common(lists)
    lists.set_defaults(func=list_keys)

    revoke = actions.add_parser("revoke", help="end a key; running servers hear of it within a second")
    revoke.add_argument("name", metavar="NAME", help="of the key, or its id")
    common(revoke)
    revoke.set_defaults(func=revoke_key)

    webhook = actions.add_parser("webhook", help="show the secret that signs a tenant's webhooks of CI")
    webhook.add_argument("tenant", metavar="TENANT")
    webhook.add_argument("--models", type=Path, default=Path("models.yaml"), help="the table (default: models.yaml)")
    webhook.add_argument("--json", action="store_true", help="one JSON object")
    webhook.set_defaults(func=show_webhook)


def add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget-usd", type=float, metavar="X", help="that all keys of the tenant may spend together")
    parser.add_argument("--per", choices=PERIODS, help="the budget's period, by the calendar in UTC (default: month)")


def budget_of(options: argparse.Namespace) -> TenantBudget | None:
    if options.per is not None and options.budget_usd is None:
        raise ValueError(f"--per {options.per} is the period of a budget: give --budget-usd, too")
    return None if options.budget_usd is None else TenantBudget(usd=options.budget_usd, per=options.per or "month")


def common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", type=Path, default=KEY_FILE, help=f"the key file (default: {KEY_FILE})")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def add_key(options: argparse.Namespace) -> int:
    file = KeyFile(options.keys)
    is_first = not file.path.exists()
    key, text = file.add(
        options.name,
        tenant=options.tenant,
        budget=budget_of(options),
        requests_per_minute=options.requests_per_minute,
        role=options.role,
        allow=options.allow,
    )
    if options.json:
        print(json.dumps({"key": text} | shown(key, file.read())))
    else:
        print(f"{text}\n  tenant {key.tenant}, role {key.role}, id {key.id}: keep the key, it is not shown again")
        if is_first:
            print("  start `sage serve` again if it runs: one that began without keys asks nobody for one")
    return 0


def set_budget(options: argparse.Namespace) -> int:
    budget = budget_of(options)
    KeyFile(options.keys).set_budget(options.tenant, budget)
    values = {"tenant": options.tenant, "budget_usd": None, "per": None}
    if budget is not None:
        values |= {"budget_usd": budget.usd, "per": budget.per}
    told = "has no budget" if budget is None else f"may spend {budget.usd:g} USD/{budget.per}"
    print(json.dumps(values) if options.json else f"{options.tenant} {told}")
    return 0


def list_keys(options: argparse.Namespace) -> int:
    keys = KeyFile(options.keys).read()
    spent = spent_of(keys, options.db)
    rows = [shown(key, keys) | {"spent_usd": spent.get(key.tenant)} for key in keys.keys]
    if options.json:
        print(json.dumps({"keys": rows}))
        return 0
    if not rows:
        print(f"{options.keys} has no keys: `sage keys add NAME` makes one")
    for row in rows:
        limits = [f"{row['requests_per_minute']} requests/minute"] if row["requests_per_minute"] else []
        if row["models"]:
            limits.append(f"models {', '.join(row['models']['allow'])}")
        if row["budget_usd"]:
            used = "" if row["spent_usd"] is None else f"{row['spent_usd']:.4g} of "
            limits.append(f"{used}{row['budget_usd']:g} USD/{row['per']}")
        state = f"revoked {row['revoked']}" if row["revoked"] else f"since {row['created']}"
        print("  ".join([row["id"], row["name"], f"tenant {row['tenant']}", f"role {row['role']}", state, *limits]))
    return 0


def spent_of(keys: Keys, db: Path) -> dict[str, float]:
    """Returns the USD that each tenant with a budget has spent in its present period; {} if there is no log."""
    if not keys.budgets or not db.is_file():
        return {}
    with closing(DecisionLog(db)) as log:
        return {tenant: log.tenant_spent(tenant, budget, time.time()) for tenant, budget in keys.budgets.items()}


def revoke_key(options: argparse.Namespace) -> int:
    file = KeyFile(options.keys)
    key = file.revoke(options.name)
    if options.json:
        print(json.dumps(shown(key, file.read())))
    else:
        print(f"revoked {key.name} ({key.id})")
    return 0


def show_webhook(options: argparse.Namespace) -> int:
    from sage.orchestrator.models_file import ModelsFile
    from sage.serve.feedback.ci_events import tenant_secret, webhook_secret

    secret = webhook_secret(ModelsFile.read(options.models).serve)
    if secret is None:
        raise ValueError(
            f"{options.models} names no secret for webhooks: set serve.webhook_key_env or webhook_key_file"
        )
    check_name("TENANT", options.tenant)
    derived = tenant_secret(secret.reveal(), options.tenant)
    path = f"{WEBHOOK}/{options.tenant}"
    print(json.dumps({"path": path, "secret": derived}) if options.json else f"{derived}\n  for webhooks to {path}")
    return 0


def shown(key: Key, keys: Keys) -> dict:
    """Returns what may be shown of a key: neither the key nor its hash."""
    budget = keys.budgets.get(key.tenant)
    return {
        "id": key.id,
        "name": key.name,
        "tenant": key.tenant,
        "role": key.role,
        "models": key.models,
        "created": moment(key.created),
        "revoked": None if key.revoked is None else moment(key.revoked),
        "requests_per_minute": key.requests_per_minute,
        "budget_usd": None if budget is None else budget.usd,
        "per": None if budget is None else budget.per,
    }


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

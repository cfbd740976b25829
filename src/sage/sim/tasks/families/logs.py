"""A nightly job that reads orders, prices them and writes totals; its log has warnings that do not matter."""

from __future__ import annotations

import logging
import random

CHOICES = {"REBATE_FROM": (5, 10, 12), "REBATE": (5, 10), "TAX": (7, 19), "FREE_FROM": (80, 150), "POSTAGE": (4, 6)}
REBATE_FROM = 10
REBATE = 10
TAX = 19
FREE_FROM = 80
POSTAGE = 4
log = logging.getLogger(__name__)


def read_orders(lines: list[str]) -> list[dict[str, str]]:
    """Orders of lines `customer;article;count;cents`; comments and broken lines are left out."""
    orders = []
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            log.debug("line %d is empty or a comment", number)
            continue
        fields = line.split(";")
        if len(fields) != 4 or not fields[2].isdigit() or not fields[3].isdigit():
            log.warning("line %d is broken and left out: %s", number, line)
            continue
        orders.append(dict(zip(("customer", "article", "count", "cents"), fields, strict=True)))
    log.info("read %d orders of %d lines", len(orders), len(lines))
    return orders


def clean_customer(name: str) -> str:
    """A name in one spelling."""
    cleaned = " ".join(name.replace("_", " ").split()).title()
    if cleaned != name:
        log.warning("customer %r is written as %r", name, cleaned)
    return cleaned


def price(count: int, cents: int) -> int:
    """The price of an order in cents; from REBATE_FROM pieces there is a rebate of REBATE percent."""
    total = count * cents
    if count >= REBATE_FROM:
        total -= total * REBATE // 100
        log.info("rebate for %d pieces: %d", count, total)
    return total


def price__steps(count: int, cents: int) -> int:
    """The price of an order in cents; from REBATE_FROM pieces there is a rebate of REBATE percent."""
    percent = 100
    if count >= REBATE_FROM:
        percent -= REBATE
        log.info("rebate for %d pieces", count)
    whole = count * cents
    return whole - whole * (100 - percent) // 100


def add_tax(cents: int) -> int:
    """The price with tax, rounded up to whole cents."""
    taxed = cents + -(-cents * TAX // 100)
    log.debug("%d with tax is %d", cents, taxed)
    return taxed


def group(orders: list[dict[str, str]]) -> dict[str, list[int]]:
    """The prices of all orders of each customer."""
    grouped: dict[str, list[int]] = {}
    for order in orders:
        name = clean_customer(order["customer"])
        cost = price(int(order["count"]), int(order["cents"]))
        if cost == 0:
            log.warning("%s ordered %s for nothing", name, order["article"])
        grouped.setdefault(name, []).append(cost)
    return grouped


def postage(cents: int) -> int:
    """What sending costs: nothing from FREE_FROM euros."""
    return 0 if cents >= FREE_FROM * 100 else POSTAGE * 100


def rank(totals: dict[str, int]) -> list[str]:
    """Lines of customers and totals in euros, the largest first, then by name."""
    lines = []
    for name in sorted(totals, key=lambda key: (-totals[key], key)):
        euros, cents = divmod(totals[name], 100)
        lines.append(f"{name}: {euros}.{cents:02d}")
    return lines


def process(lines: list[str]) -> list[str]:
    """The report of a night."""
    totals = {}
    for name, prices in group(read_orders(lines)).items():
        goods = sum(prices)
        totals[name] = add_tax(goods) + postage(goods)
        log.info("%s: %d orders, %d in all", name, len(prices), totals[name])
    if not totals:
        log.error("nothing was ordered")
    return rank(totals)


def arguments_process(rng: random.Random) -> tuple:
    lines = []
    for _ in range(rng.randint(1, 6)):
        name = rng.choice(["ada", "Bo Li", "bo_li", "Cy", "  dee "])
        count, cents = rng.choice([1, 3, 4, 5, 9, 10, 11, 12, 13]), rng.choice([0, 99, 250, 1999])
        line = f"{name};{rng.choice(['pen', 'ink'])};{count};{cents}"
        lines.append(rng.choice([line, line, line, line, "# note", "broken;line", f"{name};pen;x;1"]))
    return (lines,)


def arguments_price(rng: random.Random) -> tuple:
    return rng.choice([1, 4, 5, 9, 10, 11, 12, 13]), rng.choice([0, 99, 250, 1999])

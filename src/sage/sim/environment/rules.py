"""Rules of a software task: actions, costs and rewards (all in one currency), and sizes of observations."""

from __future__ import annotations

from sage.sim.environment.suspects import LOOKS, NUM_KINDS, NUM_SLOTS, SYNTAX
from sage.sim.environment.tables import NUM_NODES

LOCALISE, RUN, REVERT, SUBMIT, ESCALATE, STOP = range(6)
TIERS = ("small", "medium", "large")
CONTEXTS = ("short", "long")
ASK = 6  # + 2 * tier + context
INSPECT = ASK + len(TIERS) * len(CONTEXTS)  # + slot
TRY = INSPECT + NUM_SLOTS  # + kinds * slot + kind
NUM_ACTIONS = TRY + NUM_SLOTS * NUM_KINDS
FORBIDDEN = NUM_ACTIONS  # what an action that the mask forbids becomes: nothing happens, and it costs
TYPES = ("localise", "run", "revert", "submit", "escalate", "stop", "ask", "inspect", "try")

# A unit is about a cent. A model's attempt at a task costs cents. A run of tests costs less than a tenth of a cent of processor
# time, but somebody waits for it: a trial runs the failing tests, `run` all visible ones, `localise` traces these.
SOLVED, WRONG = 50.0, -20.0  # of a submission
COSTS = {"localise": 1.0, "run": 0.5, "revert": 0.0, "submit": 0.0, "escalate": 25.0, "stop": 0.0}
COST_INSPECT, COST_TRY, COST_FORBIDDEN = 0.1, 0.25, 1.0
COST_ASK = tuple(tier * context for tier in (3.0, 8.0, 16.0) for context in (1.0, 1.5))
MOST_SPENT = 60.0  # then only submitting and stopping are left
MOST_ASKED = 2  # of each tier
HORIZON = 40  # actions
SHAPING = 40.0  # potential of a tree in which nothing fails any more: a trial by chance pays for itself, so that trials are learned
SCALE = 1 / SOLVED  # of rewards

ORACLE = NUM_NODES  # the tree of a correct patch, after the nodes of trials
HISTORY = 4  # actions that are remembered
NUM_TASK_FEATURES = 12
BOUNDS = (-1.0, 10.0)  # of every number that is seen
SLOT_FEATURES = (
    len(LOOKS) + len(SYNTAX) + 4
)  # and how strange it is, whether it was inspected, how much was tried, the best result


def action_name(action: int) -> str:
    """Returns the name of an action, such as `ask small short`, or `try 3 1` for a slot and a kind."""
    if action < ASK:
        return TYPES[action]
    if action < INSPECT:
        return f"ask {TIERS[(action - ASK) // 2]} {CONTEXTS[(action - ASK) % 2]}"
    if action < TRY:
        return f"inspect {action - INSPECT}"
    return f"try {(action - TRY) // NUM_KINDS} {(action - TRY) % NUM_KINDS}"

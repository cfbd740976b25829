"""The algorithms of Stable-Baselines3 and sb3-contrib, recognised by the policy class and the settings of an archive."""

from __future__ import annotations

from rl_training.api.sb3.archive import Archive
from rl_training.api.sb3.inert_pickle import Name

ACTOR_CRITIC = "stable_baselines3.common.policies"
RECURRENT = "sb3_contrib.common.recurrent.policies"
OTHERS = {  # what cannot be imported, and what to do instead
    "sb3_contrib.common.maskable.policies": "MaskablePPO takes its masks apart from the observations, and here they are the "
    "observation's key action_mask: train PPO on such an environment",
    "sb3_contrib.ars.policies": "ARS is not available here",
}
BY_POLICY = {  # module of the policy class -> our name of the algorithm
    RECURRENT: "recurrent_ppo",
    "stable_baselines3.dqn.policies": "dqn",
    "sb3_contrib.qrdqn.policies": "qr_dqn",
    "stable_baselines3.td3.policies": "td3",
    "stable_baselines3.sac.policies": "sac",
    "sb3_contrib.tqc.policies": "tqc",
    "sb3_contrib.crossq.policies": "crossq",
}


def algorithm_of(archive: Archive) -> str:
    """Returns our name, such as "qr_dqn", of the algorithm that an archive holds.

    Raises CheckpointError if it is none that can be imported, or its policy is a class of the user's own.
    """
    found = archive.plain("policy_class")
    if not isinstance(found, Name):
        raise archive.refusal("does not name its policy's class, or has one that was pickled as code")
    if found.module in OTHERS:
        raise archive.refusal(f"holds a {found.name}: {OTHERS[found.module]}")
    settings = archive.settings
    if settings.get("use_sde"):
        raise archive.refusal("was trained with use_sde=True: state-dependent exploration is not available here")
    if found.module == ACTOR_CRITIC:
        if "cg_max_steps" in settings:
            return "trpo"
        return "ppo" if "clip_range" in settings else "a2c"
    if found.module not in BY_POLICY:
        raise archive.refusal(
            f"has the policy class {found.path}, which is none of Stable-Baselines3 2.9 and sb3-contrib 2.9: only their own "
            "policies can be imported"
        )
    name = BY_POLICY[found.module]
    if name == "td3" and settings.get("policy_delay") == 1 and not settings.get("target_noise_clip"):
        return "ddpg"
    return name

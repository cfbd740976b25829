"""The environment in which a policy learns to repair software.

Importing it makes its name known: `gymnasium.make("sage/SoftwareTask-v0", tables="tables.npz", split="train")`.
"""

import gymnasium

gymnasium.register("sage/SoftwareTask-v0", entry_point="sage.sim.environment.gym_env:SoftwareTaskEnv")

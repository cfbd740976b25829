"""The environment in which a policy learns to repair software.

Importing it registers its name: `gymnasium.make("sage/SoftwareTask-v0", tables="tables.npz", split="train")`.
"""

import gymnasium

gymnasium.register("sage/SoftwareTask-v0", entry_point="sage.sim.environment.gym_env:SoftwareTaskEnv")

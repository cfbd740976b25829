"""Software tasks for agents that read text and call tools.

Importing it registers its environment: `gymnasium.make("sage/SoftwareText-v0", split="train")`.
"""

import gymnasium

gymnasium.register("sage/SoftwareText-v0", entry_point="sage.sim.agents.text_env:SoftwareTextEnv")

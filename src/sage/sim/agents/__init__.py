"""Software tasks for agents that read text and call tools.

Importing it makes its environment known: `gymnasium.make("sage/SoftwareText-v0", split="train")`.
"""

import gymnasium

gymnasium.register("sage/SoftwareText-v0", entry_point="sage.sim.agents.text_env:SoftwareTextEnv")

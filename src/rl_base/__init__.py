"""The part that rl_training and sage share: statistics, off-policy evaluation and file locks, which need no PyTorch."""

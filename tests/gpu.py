"""What tests of code for a GPU share."""

import pytest
import torch

from tests import needs

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason=needs.GPU)
REPLAY = {"buffer_size": 300, "learning_starts": 64, "batch_size": 16}
TARGETS = REPLAY | {"train_freq": 8, "gradient_steps": 2, "target_update_interval": 60}
# With Adam's usual 1e-8, gradients that are rounding alone make whole steps: one weight of TD3 in 2,048 was 2e-4 off.
ROUNDED = REPLAY | {"adam_eps": 1e-3}

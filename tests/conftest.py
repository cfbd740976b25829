import os

import torch
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

torch.set_num_threads(1)
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", default_cache_dir())  # tests leave nothing in a home

import os

import torch

os.environ["JSONARGPARSE_DEPRECATION_WARNINGS"] = "off"  # Lightning 2.6 calls jsonargparse by older names
os.environ["WANDB_SILENT"] = "true"
torch.set_num_threads(1)  # small tensors: several threads only wait for each other

"""Data-parallel training with torch.distributed over gloo; the addresses are those of the environment."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
weight = torch.zeros(1)
for _ in range(3):
    gradient = torch.full((1,), dist.get_rank() + 1.0)
    dist.all_reduce(gradient)
    weight += gradient
print("rank", dist.get_rank(), "of", dist.get_world_size(), "has weight", weight.item())
dist.destroy_process_group()

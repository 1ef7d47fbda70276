"""`frontend.utils.data`: datasets, samplers and the loader, named as PyTorch's."""

from frontend.utils.data.collate import default_collate
from frontend.utils.data.dataloader import DataLoader
from frontend.utils.data.dataset import Dataset, Subset, TensorDataset, random_split
from frontend.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "RandomSampler", "Sampler", "SequentialSampler",
    "Subset", "TensorDataset", "default_collate", "random_split",
]  # fmt: skip

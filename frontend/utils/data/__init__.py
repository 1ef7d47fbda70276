"""`frontend.utils.data`: datasets, samplers and the loader, named as PyTorch's.

dataset and sampler say what is read in which order, dataloader and iterators read it: by fetch and
collate here, or by pool and worker in other processes. distributed is PyTorch's name.
"""

from frontend.utils.data import distributed
from frontend.utils.data.collate import default_collate, default_convert
from frontend.utils.data.dataloader import DataLoader
from frontend.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from frontend.utils.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from frontend.utils.data.worker import get_worker_info

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "distributed", "get_worker_info", "random_split",
]  # fmt: skip

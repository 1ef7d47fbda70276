"""`frontend.vision.datasets`: images from files that are there, or made up: nothing is
downloaded."""

from frontend.vision.datasets.fakedata import FakeData
from frontend.vision.datasets.folder import DatasetFolder, ImageFolder
from frontend.vision.datasets.mnist import KMNIST, MNIST, FashionMNIST, read_idx

__all__ = [
    "DatasetFolder", "FakeData", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST", "read_idx",
]  # fmt: skip

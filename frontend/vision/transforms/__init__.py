"""`frontend.vision.transforms`: what happens to an image before it is batched. Images are tensors
[..., C, H, W], or PIL's where Pillow is installed.

Random transforms draw from the default generator.

geometry, color, conversion and combining are the classes, functional the functions; image_types
says what an image is, tensor_images and pil_images do the work on each kind.
"""

# ruff: noqa: F403

from frontend.vision.transforms import functional as functional
from frontend.vision.transforms.color import *
from frontend.vision.transforms.combining import *
from frontend.vision.transforms.conversion import *
from frontend.vision.transforms.geometry import *
from frontend.vision.transforms.image_types import InterpolationMode as InterpolationMode

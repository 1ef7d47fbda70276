"""What Python processes run first that a script of `python -m frontend.run` starts: for them too
`import torch` is the frontend. Launchers start ranks so (mp.spawn, Lightning's, accelerate's).

Their folder stands first in the environment's PYTHONPATH; Python imports its `sitecustomize`.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = str(Path(__file__).parent)


def hand_on() -> None:
    """Have Python processes that this one starts run it."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if FOLDER not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([FOLDER, *filter(None, paths)])

"""`as_it_is.py SCRIPT.py ARGS`: runs a script on PyTorch as `python SCRIPT.py ARGS` does, beside
torchvision's wheel of another PyTorch (see worker.py)."""

from __future__ import annotations

import runpy
import sys
import types
from pathlib import Path

if __name__ == "__main__":
    _NAME = "torchvision._meta_registrations"
    sys.modules[_NAME] = types.ModuleType(_NAME)
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")

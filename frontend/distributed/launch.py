"""`torch.distributed.launch`: an older name of `torch.distributed.run`."""

from __future__ import annotations

import sys

from frontend.distributed.run import main as main

if __name__ == "__main__":
    sys.exit(main())

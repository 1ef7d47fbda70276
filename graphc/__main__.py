"""`python -m graphc`: the command line."""

from __future__ import annotations

import sys

from graphc.debug.cli import main

sys.exit(main())

"""What every test of the plugin runs under."""

from __future__ import annotations

import os
from pathlib import Path

# A configuration file at home would send LIBERO to other assets: look where there is none.
os.environ["LIBERO_CONFIG_PATH"] = str(Path(__file__).parent / "no-libero-configuration")

"""What every test of the plugin runs under."""

from __future__ import annotations

import os
import signal
from pathlib import Path

# A configuration file at home would send LIBERO to other assets: look where there is none.
os.environ["LIBERO_CONFIG_PATH"] = str(Path(__file__).parent / "no-libero-configuration")

# A shell that starts the tests in the background has them ignore Ctrl-C, and every process that
# they start: tests that send it would wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

"""What RoboCasa-Shift checks before an evaluation: its levels, without the policy, and the pairing.

``--vla-task``, ``--vla-episodes``, ``--vla-axis`` and ``--vla-level`` narrow them as they narrow
the rollouts; ``--deselect`` or ``-k "not audit"`` leaves them out.
"""

import pytest

from pytest_vla_shift.audits import Audit

pytestmark = pytest.mark.vla_suite("robocasa_shift_on_libero")


def test_severity_audit(audit: Audit) -> None:
    audit.assert_severity()


def test_pairing_audit(audit: Audit) -> None:
    audit.assert_pairing()

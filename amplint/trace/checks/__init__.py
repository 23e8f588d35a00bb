"""What is wrong about a run, from its record: the AMP8xx family."""

from __future__ import annotations

from amplint.findings import Finding
from amplint.trace.checks.cast_churn import CastChurn
from amplint.trace.checks.check import Check
from amplint.trace.checks.float32_products import Float32MatmulInRegion
from amplint.trace.checks.half_weights import HalfMasterWeights
from amplint.trace.checks.sensitive import SensitiveOpInHalf
from amplint.trace.checks.skipped import StepsSkipped
from amplint.trace.record import Record

CHECKS: tuple[type[Check], ...] = (
    Float32MatmulInRegion,
    SensitiveOpInHalf,
    StepsSkipped,
    HalfMasterWeights,
    CastChurn,
)


def findings(record: Record) -> list[Finding]:
    """All findings in `record`, worst first, those of one severity by place."""
    found = [finding for check in CHECKS for finding in check().findings(record)]
    return sorted(found, key=lambda finding: (-finding.severity, finding.filename, finding.span, finding.code))

"""Checking stores, levels 1 to 5."""

from __future__ import annotations

from typing import Any

import zvf

from ..core.group import Group, shared_for
from .structure import ValidationResult, validate_structure


def validate(store_path: Any, *, level: int = 3) -> ValidationResult:
    """Check a store: a path, a URL or a handle; what is wrong is in the result."""
    if not 1 <= level <= 5:
        raise ValueError(f"Conformance level must be 1-5, got {level}")
    result = ValidationResult(level=level)
    group = Group(shared_for(store_path, "r"))
    result.merge(validate_structure(group))
    if not result.ok:
        return result
    try:
        report = zvf.validate(group._shared.address, level=level, storage_options=group._shared.storage)
    except zvf.Error as error:
        result.errors.append(str(error))
        return result
    for finding in report.findings:
        text = f"{finding.rule}: {finding.message}" + (f" ({finding.key})" if finding.key else "")
        (result.errors if finding.severity == "error" else result.warnings).append(text)
    result.passed.extend(f"rules of level {n}" for n in range(1, level + 1))
    return result


__all__ = ["ValidationResult", "validate", "validate_structure"]

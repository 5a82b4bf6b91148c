"""What a validation found, and whether there is a store at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..core.group import Group, shared_for
from ..exceptions import ZVError


@dataclass
class ValidationResult:
    """What was checked, and what is wrong."""

    level: int
    passed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.errors

    def add_pass(self, msg: str) -> None:
        """Add what is as it should be."""
        self.passed.append(msg)

    def add_warning(self, msg: str) -> None:
        """Add what may surprise."""
        self.warnings.append(msg)

    def add_error(self, msg: str) -> None:
        """Add what is wrong."""
        self.errors.append(msg)

    def merge(self, other: ValidationResult) -> None:
        """Add what another check found."""
        self.passed += other.passed
        self.warnings += other.warnings
        self.errors += other.errors

    def summary(self) -> str:
        """Counts and everything that is wrong, as text."""
        lines = [f"Level {self.level} validation: {'PASS' if self.ok else 'FAIL'}"]
        lines.append(f"  {len(self.passed)} passed, {len(self.warnings)} warnings, {len(self.errors)} errors")
        lines += [f"  ERROR: {text}" for text in self.errors]
        lines += [f"  WARN:  {text}" for text in self.warnings]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def validate_structure(store_path: Any) -> ValidationResult:
    """Whether there is a store."""
    result = ValidationResult(level=1)
    try:
        group = store_path if isinstance(store_path, Group) else Group(shared_for(store_path, "r"))
        if group.is_local and group._shared.address.endswith(".tet"):
            group._shared.dataset()
        elif "zarr_vectors" not in group.attrs:
            result.errors.append("No root metadata found: the attributes have no zarr_vectors block")
        else:
            result.passed.append("root metadata is there")
    except ZVError as error:
        result.errors.append(f"No root metadata found: {error}")
    return result

"""Coarser levels."""

"""Arithmetic of the grid."""

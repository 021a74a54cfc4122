"""Measuring voices; the packages of the metrics are the extra `evaluate`."""

INSTALL_LINE = "`pip install '.[evaluate]'` in the project folder"
"""From the sources, with the versions of pyproject.toml."""

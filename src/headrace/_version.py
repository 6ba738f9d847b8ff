"""The version, in one place (SemVer)."""

__version__ = "0.1.0"

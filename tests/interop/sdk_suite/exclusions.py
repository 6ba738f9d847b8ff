"""Tests of the checkout that headrace is not held to, each with a reason that lies outside of it.

A pattern is matched against the end of a test's id from its file on (`fnmatch`), a leg is one of `legs.LEGS`.
"""

EXCLUSIONS = []
"""(pattern, leg or "*", reason)"""

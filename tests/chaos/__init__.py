"""What hosting promises while things die: `make chaos` kills workers and Redis under load and counts what callers saw."""

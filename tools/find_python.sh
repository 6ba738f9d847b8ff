# To be sourced: `find_python 3.12` prints the CPython of that version installed here, or nothing.
find_python() { # VERSION
  local candidate
  for candidate in "python$1" "$HOME"/.pyenv/versions/"$1".*/bin/python; do
    if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

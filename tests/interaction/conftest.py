"""Fixtures of the interaction tests: `cell`, over the whole matrix."""

import pytest

from interaction.cells import World, cells

_ALL, _NAMES = cells()


@pytest.fixture(scope="package")
def worlds(tmp_path_factory):
    made = {}

    def world(loop_name):
        if loop_name not in made:
            made[loop_name] = World(loop_name, tmp_path_factory.mktemp("cells"))
        return made[loop_name]

    yield world
    for each in made.values():
        each.close()


@pytest.fixture(params=_ALL, ids=_NAMES)
def cell(request, worlds):
    loop_name, transport, revision = request.param
    return worlds(loop_name).cell(transport, revision)

import pytest


def pytest_addoption(parser):
    parser.addoption("--glint", help="the glint program")


@pytest.fixture
def glint(request):
    program = request.config.getoption("--glint")
    if not program:
        pytest.skip("needs --glint")
    return program

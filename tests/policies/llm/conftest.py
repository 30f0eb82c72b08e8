"""As for the models themselves: no proxy, no key of the person who runs the tests."""

from tests.models.conftest import own_environment

__all__ = ["own_environment"]

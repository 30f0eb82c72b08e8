"""A context in which attention is computed by plain operators (PyTorch's MATH backend). Several threads may
use it at once. PyTorch's own context is not fit for that: it sets a global switch and later restores the
value that it found, so two overlapping threads would leave the switch wrong."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch.nn.attention import SDPBackend, sdpa_kernel


class _Switch:
    """Counts the threads that want plain attention: the first switches it on, the last restores PyTorch's
    setting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = ExitStack()
        self._users = 0

    @contextmanager
    def plain(self) -> Iterator[None]:
        """A context in which scaled_dot_product_attention uses the MATH backend, in all threads of the
        process."""
        with self._lock:
            if self._users == 0:
                self._held.enter_context(sdpa_kernel(SDPBackend.MATH))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._held.close()


plain_attention = _Switch().plain

"""Keeps track of which optional fields of a request (structured output, streaming, ...) a model's server
accepts."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kernelblaster.models.failures import Declined
from kernelblaster.models.request import ModelAnswer

Body = dict[str, Any]

NOT_ABOUT_OPTIONS = ("context length", "context window", "context_length", "too many", "too large", "at most")


class ServerOptions:
    """Which optional fields of a request a server accepts. Each field is sent until the server objects to it,
    and not again after that. `words` has the optional fields, each with the words that an error message about
    it contains: {"stream_options": ("stream_options", "include_usage")}."""

    def __init__(self, words: Mapping[str, tuple[str, ...]]) -> None:
        self._words = dict(words)
        self._lock = threading.Lock()
        self._dropped: set[str] = set()

    def takes(self, option: str) -> bool:
        """True if the optional field `option` should be sent: it is one of the known fields, and the server
        has not rejected it."""
        return option in self._words and option not in self._dropped

    def drop(self, option: str) -> None:
        """Remembers that this server rejects the optional field `option`, which is then not sent again by
        this process."""
        with self._lock:
            self._dropped.add(option)

    def asked(self, body: Callable[[], Body], send: Callable[[Body], ModelAnswer]) -> ModelAnswer:
        """Sends a request and returns the answer. `body()` makes the request's body with the optional fields
        that the server accepts, and `send` sends it. If the server declines it because of one of these
        fields, the request is made and sent again without it. Raises Declined if no optional field is the
        reason."""
        while True:
            sent = body()
            try:
                return send(sent)
            except Declined as declined:
                if not self.heed(str(declined), sent):
                    raise

    def heed(self, complaint: str, sent: Mapping[str, object]) -> bool:
        """Finds the first optional field of the body `sent` that the server's error message `complaint` is
        about, and remembers that the server rejects it. Returns whether there is such a field."""
        text = complaint.lower()
        if any(words in text for words in NOT_ABOUT_OPTIONS):
            return False
        for option, words in self._words.items():
            if option in sent and any(word in text for word in words):
                self.drop(option)
                return True
        return False

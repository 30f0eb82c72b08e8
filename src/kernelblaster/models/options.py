"""Remembers which optional fields of a request (structured output, streaming, ...) a model's server
accepts."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kernelblaster.models.failures import Declined
from kernelblaster.models.request import ModelAnswer

Body = dict[str, Any]

NOT_ABOUT_OPTIONS = ("context length", "context window", "context_length", "too many", "too large", "at most")


class ServerOptions:
    """Which optional fields of a request a server accepts: each is sent until the server objects to it,
    and never again. `words` maps each option to the words that identify it in an error message."""

    def __init__(self, words: Mapping[str, tuple[str, ...]]) -> None:
        self._words = dict(words)
        self._lock = threading.Lock()
        self._dropped: set[str] = set()

    def takes(self, option: str) -> bool:
        """Whether to put the optional field `option` into a request: false once the server has rejected
        it."""
        return option in self._words and option not in self._dropped

    def drop(self, option: str) -> None:
        """Remembers that this server rejects the field `option`: it is not sent again by this process."""
        with self._lock:
            self._dropped.add(option)

    def asked(self, body: Callable[[], Body], send: Callable[[Body], ModelAnswer]) -> ModelAnswer:
        """The result of `send(body())`, a request whose body has the optional fields that the server accepts.
        If the server declines it because of an option, it is sent again without that option. Raises Declined
        if no option is the reason."""
        while True:
            sent = body()
            try:
                return send(sent)
            except Declined as declined:
                if not self.heed(str(declined), sent):
                    raise

    def heed(self, complaint: str, sent: Mapping[str, object]) -> bool:
        """Stop sending the first optional field that is in the body `sent` and that the server's error
        message `complaint` names; returns whether there was one."""
        text = complaint.lower()
        if any(words in text for words in NOT_ABOUT_OPTIONS):
            return False
        for option, words in self._words.items():
            if option in sent and any(word in text for word in words):
                self.drop(option)
                return True
        return False

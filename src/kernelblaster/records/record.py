"""Base class of the package's data types: frozen, strict about unknown fields, identified by content."""

import hashlib

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of the frozen pydantic values of this package; unknown fields are an error. Two records with equal
    fields are equal and have the same `digest`."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that identify the content: the beginning of the SHA-256 of its JSON."""
        return self.digest_without()

    def digest_without(self, *fields: str) -> str:
        """Returns 16 hexadecimal digits that identify the content without these fields (by name): the
        beginning of the SHA-256 of its JSON. Records that differ only in these fields get the same digits."""
        text = self.model_dump_json(exclude=set(fields))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

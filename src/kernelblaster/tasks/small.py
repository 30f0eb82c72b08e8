"""Finds the small construction of a module: smaller values for the constants and literals in its file, with
which the module's tensors are small enough for the emulator."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernelblaster.errors import BadTask
from kernelblaster.tasks.facts import Facts, Where, learn, same_structure
from kernelblaster.tasks.foreign import Hangs
from kernelblaster.tasks.module_file import ModuleFile

SMALL_ELEMENTS = 1 << 17
SHRINKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536)
LARGE, FEWEST = 64, (16, 8, 4)  # numbers from LARGE on become so small at most, in this order
IN_EACH_PART = (4, 2)  # elements that are left in each of a count of parts, in this order
BANDS = (64, 16, 4)  # literals are shrunk from the large ones on, until the module is small
# Constructions that are tried, of modules with at most FEW_PARAMETERS and of others: numbers, not times, so
# that every process finds the same.
MOST_TRIALS, MOST_OF_LARGE, FEW_PARAMETERS = 240, 60, 32
_FOUND: dict[tuple[str, str, torch.dtype | None], dict[str, int] | None] = {}


def find_small(file: ModuleFile, dtype: torch.dtype | None) -> dict[str, int] | None:
    """Returns smaller values for the file's constants (by name) and integer literals (by their digits), to be
    given to `ModuleFile.replaced`. With these, the module is small enough for the emulator. The file's dict
    SMALL is used if there is one. Otherwise they are found by shrinking its named constants, then its
    literals, and the result of the search is remembered. Returns the file's own values if these are small
    already, None if nothing was found. Floating tensors are cast to `dtype` (None: as they are)."""
    declared = file.declared_small
    if declared is not None:
        return declared
    key = (file.path, file.source, dtype)
    if key not in _FOUND:
        _FOUND[key] = _Search(file, dtype).result()
    return _FOUND[key]


def learn_small(file: ModuleFile, dtype: torch.dtype | None, primary: Facts) -> Facts | None:
    """Returns the shapes and types of the module's tensors (`Facts`) when it is built with the smaller
    constants of `find_small`, found by really running it on the CPU; None if there are no such constants.
    Raises BadTask if its tensors differ in number or rank from those of `primary`, the facts of the module as
    the file builds it. Floating tensors are cast to `dtype` (None: as they are)."""
    constants = find_small(file, dtype)
    if constants is None:
        return None
    with file.replaced(constants):
        facts = learn(file, dtype, on="cpu", small=True)
    if not same_structure(primary, facts):
        raise BadTask(f"{file.path}: SMALL changes the number or rank of tensors.")
    return facts


class _Search:
    """Looks for replacements of a file's constants and literals with which the module is small, i.e. its
    tensors have at most SMALL_ELEMENTS elements together, and still runs. Gives up after MOST_TRIALS (for
    modules with many parameters MOST_OF_LARGE) trials. Replacements map a constant's name, or a literal's
    digits, to the new value."""

    def __init__(self, file: ModuleFile, dtype: torch.dtype | None) -> None:
        self._file = file
        self._dtype = dtype
        self._primary = learn(file, dtype)
        self._trials = MOST_TRIALS if len(self._primary.parameters) <= FEW_PARAMETERS else MOST_OF_LARGE
        own = self._facts({}, "meta")
        alike = own is not None and _extents(own) == _extents(self._primary)
        self._without_values: Where = "meta" if alike else "fake"

    def result(self) -> dict[str, int] | None:
        """Replacements that make the module small; its own constants if it is small already; None if none
        were found."""
        own = {name: value for name, value in self._file.constants.items() if value >= LARGE}
        if self._primary.elements <= SMALL_ELEMENTS:
            return own
        if own:
            replacements = self._with_counts(own) or self._first(_shrunk(own))
            if replacements is not None:
                return replacements
        return self._by_literals()

    def _first(self, proposals: Iterator[dict[str, int]]) -> dict[str, int] | None:
        """The first of these proposed replacements with which the module is small and really runs; None if
        there is none."""
        return next((one for one in proposals if self._is_small(one) and self._runs(one)), None)

    def _with_counts(self, own: dict[str, int]) -> dict[str, int] | None:
        """Replacements of the file's constants `own` that leave counts of parts, such as the number of groups
        of a normalization, as they are; None if there are no such constants, or no replacements."""
        sizes = {name: value for name, value in own.items() if self._is_a_size(name, value)}
        counts = [value for name, value in own.items() if name not in sizes]
        if not counts or not sizes:
            return None
        divided = {  # by which count a size must be divisible: it cannot be half of that
            name: max((n for n in counts if value > n and self._elements({name: n // 2}) is None), default=0)
            for name, value in sizes.items()
        }
        for each in IN_EACH_PART:
            fewest = {name: each * count for name, count in divided.items()}
            replacements = self._first(_shrunk(sizes, fewest))
            if replacements is not None:
                return replacements
        return None

    def _is_a_size(self, name: str, value: int) -> bool:
        """Whether the constant `name` of the file makes tensors smaller if it alone is smaller. If it does
        not, as the number of groups of a normalization does not, no tensor shows its value: it stays as it
        is, because candidates could not know another one."""
        return self._elements({name: max(FEWEST[0], value // 4)}) != self._primary.elements

    def _by_literals(self) -> dict[str, int] | None:
        """Replacements of integer literals that make the module small; None if none were found. First all
        large literals are divided by one factor, which keeps products and quotients consistent; else each is
        replaced alone, if that makes the module smaller."""
        literals = self._file.literals
        large = [value for value in literals if value >= LARGE]
        found = self._first(_shrunk({str(value): value for value in large})) if large else None
        return self._needed(found) if found is not None else self._one_by_one(literals)

    def _one_by_one(self, literals: list[int]) -> dict[str, int] | None:
        """Replacements of literals, each chosen alone as the smallest number with which the module is still
        valid and has fewer elements; large literals first. None if the module then is not small or does not
        run."""
        current: dict[str, int] = {}
        least = self._primary.elements
        for band in BANDS:
            for value in (v for v in literals if v >= band and str(v) not in current):
                for smaller in _smaller(value):
                    trial = current | {str(value): smaller}
                    elements = self._elements(trial)
                    if elements is not None and elements < least:
                        current, least = trial, elements
                        break
            if least <= SMALL_ELEMENTS and self._runs(current):
                return self._no_smaller_than_needed(current)
        return None

    def _no_smaller_than_needed(self, replacements: dict[str, int]) -> dict[str, int]:
        """The replacements with each number made as large as it can be while the module stays small, since
        tiny sizes test little: its value in the file if possible. Small literals, which are often windows and
        image sizes, are enlarged first."""
        grown = dict(replacements)
        for key in sorted(replacements, key=int):
            own = [int(key), *reversed([w for w in _smaller(int(key)) if w > replacements[key]])]
            larger = next((value for value in own if self._is_small(grown | {key: value})), None)
            if larger is not None:
                grown[key] = larger
        grown = {key: value for key, value in grown.items() if value != int(key)}
        return grown if self._runs(grown) else replacements

    def _needed(self, replacements: dict[str, int]) -> dict[str, int]:
        """`replacements` (numbers in the task file by name, with the smaller ones to take) without those
        that make nothing smaller: one is dropped if the module runs without it and the tensors that go in and
        out of it have as many elements in total."""
        for key in list(replacements):
            fewer = {other: value for other, value in replacements.items() if other != key}
            if self._elements(fewer) == self._elements(replacements) and self._runs(fewer):
                replacements = fewer
        return replacements

    def _is_small(self, replacements: dict[str, int]) -> bool:
        """Whether the module is valid with these replacements and its tensors have at most SMALL_ELEMENTS
        elements."""
        elements = self._elements(replacements)
        return elements is not None and elements <= SMALL_ELEMENTS

    def _elements(self, replacements: dict[str, int]) -> int | None:
        """How many elements all tensors of the module have together with these replacements, found without
        computing values; None if it cannot be built and run, or its tensors differ in number or rank from
        those without replacements."""
        facts = self._facts(replacements, self._without_values)
        return None if facts is None or not same_structure(self._primary, facts) else facts.elements

    def _runs(self, replacements: dict[str, int]) -> bool:
        """Whether the module with these replacements really runs on the CPU, with tensors of the same number
        and rank as without."""
        facts = self._facts(replacements, "cpu")
        return facts is not None and same_structure(self._primary, facts)

    def _facts(self, replacements: dict[str, int], on: Where) -> Facts | None:
        """Shapes and types of the module with these replacements, found on tensors of the kind `on` ("fake",
        "meta" or "cpu"); None if it cannot be built or run, or if all trials are used up."""
        self._trials -= 1
        if self._trials < 0:
            return None
        try:
            with self._file.replaced(replacements):
                return learn(self._file, self._dtype, on=on)
        except Hangs:
            self._trials = 0
            return None
        except BadTask:
            return None


def _shrunk(numbers: dict[str, int], fewest: Mapping[str, int] | None = None) -> Iterator[dict[str, int]]:
    """Yields smaller values to try for these numbers (by name): all divided by one factor, which keeps
    products and quotients consistent, but at least 16; the factor grows. Then the same with at least 8, then
    4. `fewest` has a lower limit for each number; None: there is no other."""
    seen: list[dict[str, int]] = []
    for least in FEWEST:
        for shrink in SHRINKS[1:]:
            proposal = {
                name: max(least, value // shrink, (fewest or {}).get(name, 0))
                for name, value in numbers.items()
            }
            if proposal not in seen:
                seen.append(proposal)
                yield proposal


def _extents(facts: Facts) -> tuple[Any, ...]:
    """The shapes (and types of parameters and outputs) of all tensors in `facts`, as one value by which two
    runs of a module can be compared."""
    return facts.probe.base, facts.parameters, facts.outputs


def _smaller(value: int) -> list[int]:
    """Smaller integers to try in place of a literal `value` of the file, the smallest first: parts of it from
    1/256 to 1/2, but not too small to be a size."""
    wishes = [value // by for by in (256, 64, 16, 8, 4, 2)]
    least = FEWEST[-1] if value >= LARGE else 2
    return list(dict.fromkeys(max(least, w) for w in wishes if max(least, w) < value))

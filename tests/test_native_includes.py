"""Native sources include the standard headers whose names they use: what one compiler's library brings with
another header, the next one's does not."""

import re
from pathlib import Path

import pytest

SOURCES = sorted(
    file
    for folder in ("src/kernelblaster/ptx/native", "src/kernelblaster/devices/native")
    for file in (Path(__file__).parents[1] / folder).iterdir()
    if file.suffix in (".cpp", ".cu", ".h")
)
NAMES = {  # header: names that it declares, and headers that are documented to bring them, too
    "algorithm": r"std::(min|max|sort|stable_sort|fill|fill_n|copy|copy_n|find|find_if|any_of|all_of|none_of|"
    r"count|count_if|reverse|lower_bound|upper_bound|unique|remove_if|min_element|max_element|clamp|equal)\b",
    "numeric": r"std::(accumulate|iota|gcd|lcm)\b",
    "cstring cstring|string.h": r"\b(memcpy|memset|memcmp|memmove|strlen|strcmp|strerror|strsignal)\(",
    "cstdio cstdio|stdio.h": r"\b(printf|snprintf|fprintf|fopen|fwrite|fread|fflush|sscanf)\(",
    "cstdlib cstdlib|stdlib.h": r"\b(malloc|free|abort|exit|getenv|strtoul|strtoull|strtol|atoi|realloc)\(",
    "cstdint cstdint|stdint.h": r"\bu?int(8|16|32|64)_t\b|\buintptr_t\b",
    "string": r"std::(string|to_string|stoi|stoul|stoull|getline)\b",
    "vector": r"std::vector\b",
    "map": r"std::map\b",
    "set": r"std::set\b",
    "array": r"std::array\b",
    "optional": r"std::(optional|nullopt)\b",
    "variant": r"std::(variant|visit)\b",
    "functional": r"std::function\b",
    "memory": r"std::(unique_ptr|shared_ptr|make_unique|make_shared)\b",
    "limits": r"std::numeric_limits\b",
    "stdexcept": r"std::(runtime_error|logic_error|out_of_range|invalid_argument)\b",
    "atomic": r"std::(atomic\b|memory_order)",
    "thread": r"std::(thread|this_thread)\b",
    "mutex": r"std::(mutex|lock_guard|unique_lock|once_flag|call_once|scoped_lock)\b",
    "chrono": r"std::chrono\b",
    "sstream": r"std::(ostringstream|istringstream|stringstream)\b",
}


@pytest.mark.parametrize("source", SOURCES, ids=lambda file: file.name)
def test_headers_of_used_names_are_included(source: Path) -> None:
    text = re.sub(r"//[^\n]*", "", source.read_text())
    included = _included(source, set())
    missing = []
    for key, names in NAMES.items():
        header, _, any_of = key.partition(" ")
        used = re.search(names, text)
        if used and not included & set((any_of or header).split("|")):
            missing.append(f"<{header}> for {used.group()}")
    assert not missing


def _included(file: Path, seen: set[Path]) -> set[str]:
    """Standard headers that a file includes, itself or by headers of the project."""
    if file in seen or not file.exists():
        return set()
    seen.add(file)
    text = file.read_text()
    found = set(re.findall(r"#include <([^>]+)>", text))
    for name in re.findall(r'#include "([^"]+)"', text):
        found |= _included(file.parent / name, seen)
    return found

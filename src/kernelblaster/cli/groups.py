"""Option groups: options of several commands are declared once, as the fields of a dataclass.

    @dataclass(frozen=True)
    class DeviceOptions:
        device: Annotated[str, typer.Option("--device", help="Where it runs.")] = "auto"

    @grouped
    def verb(task: str, where: DeviceOptions) -> None: ...

The command line has one option for each field in place of `where`.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Returns a function that calls `verb`, with a signature in which Typer finds the options. Each parameter
    of `verb` whose type is an option group (a dataclass) is replaced there by keyword parameters, one for
    each field of the group."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    flat: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name in groups:
            flat += _parameters(groups[parameter.name])
        else:
            flat.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            )

    @wraps(verb)
    def called(**given: Any) -> None:
        made = {name: group(**_taken(group, given)) for name, group in groups.items()}
        verb(**given, **made)

    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    del called.__wrapped__  # Typer would look through it at the groups
    return called


def _parameters(group: Any) -> list[inspect.Parameter]:
    """Turns an option group, a dataclass, into keyword parameters of a command: one for each field, with its
    type and default."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def _default(field: "Field[Any]") -> Any:
    """The default of a dataclass field for `inspect.Parameter`: `Parameter.empty` if the option is
    required."""
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _taken(group: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Takes the options that belong to `group` out of `given`, a command's arguments by name, and returns
    them."""
    return {field.name: given.pop(field.name) for field in fields(group)}

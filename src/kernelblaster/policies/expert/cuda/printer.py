"""Writes the syntax trees of C++ expressions (terms.py) and statements (statements.py) as CUDA text: two
spaces per scope, lines of readable length, parentheses only where they are needed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernelblaster.policies.expert.cuda.headers import Header
from kernelblaster.policies.expert.cuda.statements import (
    Assembly,
    Assignment,
    Body,
    CooperativeLaunch,
    Declaration,
    Declarator,
    Do,
    For,
    If,
    Jump,
    Lambda,
    LambdaParameter,
    Launch,
    Remark,
    Return,
    Scope,
)
from kernelblaster.policies.expert.cuda.terms import (
    Braces,
    Call,
    Choice,
    Conversion,
    CudaType,
    DeviceFunction,
    Element,
    Field,
    Given,
    Infix,
    LiteralTerm,
    Local,
    Prefixed,
    Reinterpreted,
    Term,
    TypeTerm,
)

WIDTH = 110  # letters of a line, beyond which arguments and conditions continue on the next
LONG = 90  # letters of a statement before it is indented
STEP = "  "
PRECEDENCE = {
    "*": 12,
    "/": 12,
    "%": 12,
    "+": 11,
    "-": 11,
    "<<": 10,
    ">>": 10,
    "<": 9,
    "<=": 9,
    ">": 9,
    ">=": 9,
}
PRECEDENCE |= {"==": 8, "!=": 8, "&": 7, "^": 6, "|": 5, "&&": 4, "||": 3}
UNARY, ATOM, CHOICE = 13, 14, 2
CLEARER = {"^", "&", "|", "<<", ">>"}  # whose operands have parentheses for the reader's sake
SIMPLE = Assignment | Do | Return | Jump  # statements that may stand behind a condition, on its line


class Printer:
    """Writes the body of one C++ function as text. `renamed` maps names of the function's parameters
    (tensors, sizes, arguments) to the names that the text has in their place. While it prints, it records
    three things: the parameters that the body uses (`given`), the names of variables and functions that the
    body declares (`declared`), and the headers of device code that the body `needs`. A parameter with a name
    in `declared` would be hidden by that variable: the caller must print again with the parameter renamed
    (see `printed` in source.py)."""

    def __init__(self, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed
        self.given: dict[str, None] = {}
        self.declared: set[str] = set()
        self.needs: dict[Header, None] = {}
        self._forms: dict[type, Callable[[Any], tuple[str, int]]] = {
            Local: lambda t: (t.name, ATOM),
            Given: self._given,
            LiteralTerm: lambda t: (t.text, UNARY if t.text.startswith("-") else ATOM),
            Infix: self._infix,
            Element: lambda t: (f"{self._within(t.array, ATOM)}[{self.term(t.place)}]", ATOM),
            Call: self._call,
            Conversion: lambda t: (f"({self._type(t.type)}){self._within(t.operand, UNARY)}", UNARY),
            Field: lambda t: (f"{self._within(t.object, ATOM)}.{t.name}", ATOM),
            Prefixed: self._prefixed,
            Choice: self._choice,
            DeviceFunction: self._device_function,
            Braces: self._braces,
            Reinterpreted: self._reinterpreted,
            TypeTerm: lambda t: (self._type(t.type), ATOM),
            Lambda: self._lambda,
        }
        self._statements: dict[type, Callable[[Any], Iterable[str]]] = {
            Declaration: lambda s: [f"{self._declaration(s)};{_behind(s.remark)}"],
            Assignment: lambda s: [f"{self._assignment(s)};"],
            Do: self._do,
            If: self._if,
            For: self._for,
            Scope: lambda s: ["{", *self.body(s.body), "}"],
            Return: lambda s: [f"return {self.term(s.value)};" if s.value is not None else "return;"],
            Jump: lambda s: [f"{s.to};"],
            Remark: lambda s: [f"// {s.text}"],
            Assembly: lambda s: [f'asm volatile("{s.instruction};");'],
            Launch: self._launch,
            CooperativeLaunch: self._cooperative_launch,
        }

    def term(self, term: Term) -> str:
        return self._forms[type(term)](term)[0]

    def body(self, body: Body, depth: int = 1) -> list[str]:
        """Returns the lines of text of the statements `body`, each indented by `depth` times two spaces."""
        indent = STEP * depth
        found: list[str] = []
        for statement in body:
            for line in self._statements[type(statement)](statement):
                found += [indent + part for part in line.split("\n")]
        return found

    def _within(self, term: Term, needed: int) -> str:
        text, binding = self._forms[type(term)](term)
        return f"({text})" if binding < needed else text

    def _listed(self, found: Sequence[Term]) -> str:
        return ", ".join([self.term(part) for part in found])

    def _template(self, arguments: Sequence[Term]) -> str:
        return f"<{self._listed(arguments)}>" if arguments else ""

    def _type(self, found: CudaType) -> str:
        if found.needs is not None:
            self.needs[found.needs] = None
            self.declared.add(found.text.partition("<")[0])
        return found.text

    def _given(self, found: Given) -> tuple[str, int]:
        self.given[found.name] = None
        return self._renamed.get(found.name, found.name), ATOM

    def _device_function(self, found: DeviceFunction) -> tuple[str, int]:
        if found.header is not None:
            self.needs[found.header] = None
        self.declared.add(found.name)
        return f"{found.name}{self._template(found.template)}", ATOM

    def _braces(self, found: Braces) -> tuple[str, int]:
        head = self._type(found.type) if found.type is not None else ""
        return f"{head}{{{self._listed(found.items)}}}", ATOM

    def _infix(self, term: Infix) -> tuple[str, int]:
        binding = PRECEDENCE[term.operator]
        if term.operator in CLEARER:
            left, right = self._within(term.left, UNARY), self._within(term.right, UNARY)
        elif term.operator == "||":  # && within || is clearer in parentheses, and compilers warn without
            left, right = (self._either(part) for part in (term.left, term.right))
        else:
            product = term.operator == "%" and _joins(term.left, "*")
            left = self._within(term.left, UNARY if product else binding)
            right = self._within(term.right, binding + 1)
        return f"{left} {term.operator} {right}", binding

    def _either(self, term: Term) -> str:
        return self._within(term, PRECEDENCE["||"] if _joins(term, "||") else PRECEDENCE["&&"] + 1)

    def _prefixed(self, term: Prefixed) -> tuple[str, int]:
        text = self._within(term.operand, UNARY)
        return (f"-({text})" if term.operator == text[0] == "-" else term.operator + text), UNARY

    def _choice(self, term: Choice) -> tuple[str, int]:
        condition, yes = self._within(term.condition, CHOICE + 1), self._within(term.yes, CHOICE + 1)
        return f"{condition} ? {yes} : {self._within(term.no, CHOICE)}", CHOICE

    def _call(self, term: Call) -> tuple[str, int]:
        if type(term.function) is Local:
            self.declared.add(term.function.name)
        return f"{self._within(term.function, ATOM)}({self._listed(term.arguments)})", ATOM

    def _reinterpreted(self, term: Reinterpreted) -> tuple[str, int]:
        const = "const " if term.const else ""
        return f"reinterpret_cast<{const}{self._type(term.type)}*>({self.term(term.operand)})", ATOM

    def _lambda(self, term: Lambda) -> tuple[str, int]:
        parameters = ", ".join([self._parameter(parameter) for parameter in term.parameters])
        head = f"[&]({parameters}) {{"
        if len(term.body) == 1 and isinstance(term.body[0], Return):
            only = self.body(term.body, 0)
            return f"{head} {only[0]} }}", ATOM
        return "\n".join([head, *self.body(term.body), "}"]), ATOM

    def _parameter(self, found: LambdaParameter) -> str:
        self.declared.add(found.name)
        kind = self._type(found.type)
        return f"const {kind}& {found.name}" if found.reference else f"{kind} {found.name}"

    def _declaration(self, found: Declaration) -> str:
        names = ", ".join([self._declarator(name) for name in found.names])
        kind = self._type(found.type)
        return f"{found.qualifiers} {kind} {names}" if found.qualifiers else f"{kind} {names}"

    def _declarator(self, found: Declarator) -> str:
        self.declared.add(found.name)
        text = found.name + "".join([f"[{self.term(extent)}]" for extent in found.extents])
        if found.value is None:
            return text
        value = self.term(found.value)
        return f"{text}({value})" if found.constructed else f"{text} = {value}"

    def _do(self, found: Do) -> list[str]:
        line = f"{self.term(found.term)};{_behind(found.remark)}"
        if len(line) > LONG and "\n" not in line and isinstance(found.term, Call):
            parts = [self.term(part) for part in found.term.arguments]
            line = f"{self.term(found.term.function)}(\n{wrapped(parts, 4, LONG)});{_behind(found.remark)}"
        return [line]

    def _launch(self, found: Launch) -> list[str]:
        shape = f"(unsigned)({self.term(found.blocks)}), {found.threads}, {found.shared}, stream"
        arguments = wrapped([self.term(part) for part in found.arguments], 4)
        return [f"{self.term(found.kernel)}<<<{shape}>>>(\n{arguments});"]

    def _cooperative_launch(self, found: CooperativeLaunch) -> list[str]:
        self.declared.add("arguments")
        addresses = wrapped([f"(void*)&{self.term(part)}" for part in found.arguments], 6)
        shape = f"dim3((unsigned)({self.term(found.blocks)})), dim3({found.threads})"
        return [
            "{",
            f"  void* arguments[] = {{\n{addresses}}};",
            "  cudaLaunchCooperativeKernel(",
            f"      (const void*){self.term(found.kernel)}, {shape}, arguments, {found.shared}, stream);",
            "}",
        ]

    def _assignment(self, found: Assignment) -> str:
        return f"{self.term(found.place)} {found.operator} {self.term(found.value)}"

    def _if(self, found: If) -> Iterator[str]:
        keyword = "if constexpr" if found.constexpr else "if"
        head = f"{keyword} ({self.term(found.condition)})"
        yield from self._headed(head, found.body, must=bool(found.otherwise))
        rest = found.otherwise
        if not rest:
            return
        if len(rest) == 1 and isinstance(rest[0], If):
            first, *others = self._if(rest[0])
            yield f"}} else {first}"
            yield from others
            return
        yield "} else {"
        yield from self.body(rest)
        yield "}"

    def _for(self, found: For) -> Iterator[str]:
        if found.unroll:
            yield "#pragma unroll" if found.unroll == "all" else f"#pragma unroll {found.unroll}"
        start = self._declaration(found.start) if found.start is not None else ""
        condition = f" {self.term(found.condition)}" if found.condition is not None else ""
        step = ""
        if found.step is not None:
            assigned = isinstance(found.step, Assignment)
            step = f" {self._assignment(found.step) if assigned else self.term(found.step)}"  # type: ignore[arg-type]
        yield from self._headed(f"for ({start};{condition};{step})", found.body)

    def _headed(self, head: str, body: Body, *, must: bool = False) -> Iterator[str]:
        """The lines of `head`, the text of an if or for, followed by `body`: on the same line where it is a
        single short statement, else in braces. With `must` there are always braces, and the caller writes the
        closing one (for an `else`)."""
        if len(body) == 1 and isinstance(body[0], SIMPLE) and not must:
            only = self.body(body, 0)
            if len(only) == 1 and len(head) + len(only[0]) < WIDTH - 10:
                yield f"{head} {only[0]}"
                return
        yield f"{head} {{"
        yield from self.body(body)
        if not must:
            yield "}"


def _joins(term: Term, operator: str) -> bool:
    return isinstance(term, Infix) and term.operator == operator


def _behind(remark: str) -> str:
    return f"  // {remark}" if remark else ""


def wrapped(parts: Sequence[str], indent: int, width: int = WIDTH - 14) -> str:
    """Returns the `parts` joined by commas, as text of several lines, each indented by `indent` spaces. A
    line ends before it would exceed about `width` letters; a part that is longer has a line of its own."""
    lines, line = [], ""
    for part in parts:
        if line and len(line) + len(part) > width - indent:
            lines.append(f"{line},")
            line = part
        else:
            line = f"{line}, {part}" if line else part
    return "\n".join(" " * indent + found for found in [*lines, line])

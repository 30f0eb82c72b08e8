"""The `kernelblaster` command: finds the command that the user named, imports its module, runs it, and prints
errors."""

import atexit
import json
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

import kernelblaster
from kernelblaster.cli.start import STOPPED, prepare
from kernelblaster.errors import KernelBlasterError
from kernelblaster.settings import allow_reading, allow_unsafe, trust_tasks
from kernelblaster.shortage import shortage

UsageError: Any = typer.BadParameter.__mro__[2]  # click's own, which some versions of typer contain
CRASHED = 70  # exit code of an error of the program itself
OWN = "own process"  # context object of a command line run; None when called from Python


class Verb(NamedTuple):
    """A command of the command line. `path` says where its function is, as "module.function" within
    kernelblaster.cli; `line` is the first line of its help."""

    path: str
    line: str


VERBS = {
    "demo": Verb(
        "demo.demo",
        "The first five minutes: a race is caught, a module made faster, and the next one profits from it.",
    ),
    "doctor": Verb("doctor.doctor", "Say what works on this machine, what is missing and how to get it."),
    "tasks": Verb("tasks.app", "List, show and check tasks."),
    "evaluate": Verb("evaluate.evaluate", "Judge a candidate: correct or not, faster or not, by how much."),
    "profile": Verb(
        "profile.profile", "Profile candidates: every kernel in launch order, metrics and advice."
    ),
    "emulate": Verb(
        "emulate.emulate",
        "Check a candidate without a GPU: is it right at a small size, is every access in bounds?",
    ),
    "optimize": Verb(
        "optimize.optimize",
        "Search for a faster kernel: profile, name what bounds it, apply what helped then, judge, remember.",
    ),
    "resume": Verb(
        "optimize.resume",
        "Continue a run exactly where it was; where a budget for models was spent, with a larger one.",
    ),
    "verify": Verb(
        "verify.verify",
        "Judge the best candidate of a run again from scratch, and say whether the verdict holds.",
    ),
    "bench": Verb(
        "bench.bench",
        "Search every task of a suite, measure the results against each baseline, and summarize them.",
    ),
    "ablate": Verb(
        "ablate.ablate",
        "Compare ways to learn and to search: same tasks, same seeds, same budget, with intervals.",
    ),
    "report": Verb(
        "report.report",
        "One self-contained HTML file: results, figures, every step with its difference, costs.",
    ),
    "serve": Verb(
        "serve.serve",
        "A page that shows searches while they run, and lets you stop, resume and steer them.",
    ),
    "mcp": Verb(
        "mcp.mcp",
        "The judge, the knowledge base and searches as tools for coding agents (Model Context Protocol).",
    ),
    "call": Verb(
        "call.call",
        "Call one tool of a running `kernelblaster mcp --http` and print what it answers, as JSON.",
    ),
    "export": Verb(
        "export.export",
        "Write the best candidate of a run as a file that needs nothing of KernelBlaster.",
    ),
    "runs": Verb("runs.app", "Runs of `optimize`: what they did, and what they shall do next."),
    "fleet": Verb("fleet.app", "Machines that judge together: start, stop and look at them."),
    "kb": Verb("kb.app", "Look into a knowledge base, and look after it."),
}


class Verbs(TyperGroup):
    """The group of all commands, for click. The module of a command is imported only when that command is
    called, so that a list of all commands is printed fast."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # typer would end without a word
            _stop()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in VERBS else command, rest


def load_command(name: str) -> Any:
    """Imports the module of the command `name` (a key of VERBS), and returns the command, or group of
    commands, as an object of click."""
    module, _, attribute = VERBS[name].path.partition(".")
    command = getattr(import_module(f"kernelblaster.cli.{module}"), attribute)
    if isinstance(command, typer.Typer):
        group = typer.main.get_group(command)
        for one in group.commands.values():  # else click cuts their lines in the list
            one.short_help = " ".join((one.help or "").partition("\n\n")[0].split())
        return group
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name)(command)
    return typer.main.get_command(alone)


def docs_folder() -> Path:
    """Returns the folder of the documentation that messages cite: inside the installed package, otherwise
    beside the sources."""
    inside = Path(__file__).parent.parent / "docs"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "docs"


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=f"Where docs/ is cited, it is {docs_folder()}",
)
for verb, about in VERBS.items():
    app.command(verb, help=about.line, short_help=about.line)(lambda: None)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"kernelblaster {kernelblaster.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe", help="Run candidates and tasks also where they cannot be confined (docs/security.md)."
        ),
    ] = False,
    trust: Annotated[
        bool,
        typer.Option("--trust-tasks", help="Do not confine tasks: run their files as code of your own."),
    ] = False,
    readable: Annotated[
        list[Path] | None,
        typer.Option(help="What tasks may read beside their own folder; may be given again."),
    ] = None,
) -> None:
    """Make CUDA kernels faster, and judge them: correct or not, faster or not, and why."""
    if unsafe:
        allow_unsafe()
    if trust:
        trust_tasks()
    if readable:
        allow_reading(readable)


def main() -> None:
    """Runs the command that the command line names, and exits with its exit code. An error that a person can
    act on is printed as one line on standard error, with exit code 2; with `--json`, also as an object with
    the key "error" on standard output. Any other error is one of the program: it is shown in full, and the
    exit code is CRASHED, which no verdict has."""
    try:
        prepare()
        code = app(standalone_mode=False, obj=OWN)
    except UsageError as error:
        _print_json(error.format_message())
        error.show()
        sys.exit(error.exit_code)
    except KernelBlasterError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.exit(141)
    except typer.Abort:
        _stop()
    except Exception as error:
        words = shortage(error)
        if words is None:
            _crash(error)
        _fail(words)
    except KeyboardInterrupt:
        _stop()
    finally:  # a second Ctrl-C does not disturb what is tidied up at the end
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(words: str) -> NoReturn:
    """Ends the command because of an error: prints `words` as one line on standard error, and with `--json`
    also as JSON on standard output, then exits with code 2."""
    from kernelblaster.cli.terminal import Terminal

    _print_json(words)
    console = Terminal(stderr=True)
    console.print("error:", style="red", end=" ", highlight=False)
    console.print(words, markup=False, highlight=False, soft_wrap=True)
    sys.exit(2)


def _crash(error: Exception) -> NoReturn:
    """Ends the command because of an error of the program itself: prints it in full on standard error, and
    with `--json` its last line as JSON on standard output, then exits with code CRASHED."""
    last = "".join(traceback.format_exception_only(error)).strip()
    _print_json(last)
    traceback.print_exception(error)
    print(
        "error: a mistake of kernelblaster's own, not of your files. What runs have recorded is kept; "
        "please report it with the lines above.",
        file=sys.stderr,
    )
    sys.exit(CRASHED)


def _print_json(words: str) -> None:
    """Prints an error message as {"error": ...} on standard output, if the user gave `--json`."""
    if "--json" in sys.argv:
        print(json.dumps({"error": words}))


def _stop() -> NoReturn:
    """Ends the program as Ctrl-C would, with exit code STOPPED (130)."""
    print("stopped.", file=sys.stderr)
    sys.exit(STOPPED)

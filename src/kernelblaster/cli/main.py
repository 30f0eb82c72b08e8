"""The `kernelblaster` command."""

import sys
from typing import NoReturn

import typer

from kernelblaster.cli import (
    ablate,
    bench,
    demo,
    doctor,
    emulate,
    evaluate,
    export,
    kb,
    kb_check,
    optimize,
    profile,
    report,
    runs,
    tasks,
    verify,
)
from kernelblaster.cli.start import prepare
from kernelblaster.cli.terminal import Terminal
from kernelblaster.errors import KernelBlasterError
from kernelblaster.shortage import shortage

app = typer.Typer(
    help="Make CUDA kernels faster, and judge them: correct or not, faster or not, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.add_typer(tasks.app, name="tasks")
app.command("evaluate")(evaluate.evaluate)
app.command("profile")(profile.profile)
app.command("emulate")(emulate.emulate)
app.command("optimize")(optimize.optimize)
app.command("resume")(optimize.resume)
app.command("verify")(verify.verify)
app.command("bench")(bench.bench)
app.command("ablate")(ablate.ablate)
app.command("report")(report.report)
app.command("export")(export.export)
app.add_typer(runs.app, name="runs")
kb.app.command("check")(kb_check.check)
app.add_typer(kb.app, name="kb")


def main() -> None:
    """Errors that a person can act on become one line on standard error and exit code 2."""
    try:
        prepare()
        app()
    except KernelBlasterError as error:
        _say(str(error))
    except BrokenPipeError:
        sys.exit(141)
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        words = shortage(error)
        if words is None:
            raise
        _say(words)
    except KeyboardInterrupt:
        Terminal(stderr=True).print("stopped.")
        sys.exit(130)


def _say(words: str) -> NoReturn:
    console = Terminal(stderr=True)
    console.print("error:", style="red", end=" ", highlight=False)
    console.print(words, markup=False, highlight=False, soft_wrap=True)
    sys.exit(2)

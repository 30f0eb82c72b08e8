"""What tasks must not see is in a process of its own before any task file runs: keys, passwords, the rest
of the environment."""

import os
import subprocess
import sys

import pytest

from kernelblaster import __main__ as start
from kernelblaster.errors import BadTask
from kernelblaster.models.kept_keys import KeptKeys
from kernelblaster.models.names import KINDS, OWN_KEY
from kernelblaster.tasks import module_file
from kernelblaster.variables import KEYS
from tests.models.server import Says, Script, serving

KEY = "sk-planted-0123456789"
START = """
from kernelblaster import keeper
from kernelblaster.__main__ import hide
from kernelblaster.cli.start import prepare
if not keeper.is_running():
    hide()
prepare()
keeper.start()
"""
LOOKING = """
import os
planted = "-".join(["sk", "planted", "0123"]).encode()
if planted in open("/proc/self/environ", "rb").read():
    print("/proc/self/environ")
if planted.decode() in str(dict(os.environ)):
    print("os.environ")
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps:
        if "[heap]" in line or "[stack]" in line:
            begin, end = (int(text, 16) for text in line.split()[0].split("-"))
            memory.seek(begin)
            if planted + b"456" in memory.read(end - begin):
                print(line)
"""
CHECKING = """
import sys
from kernelblaster.models.check import check_model
print(check_model(sys.argv[1]))
"""


def command(code: str, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """A program that begins as the command does."""
    names = [name for name in os.environ if name not in KEYS and not name.lower().endswith("_proxy")]
    environment = {name: os.environ[name] for name in names}
    return subprocess.run(
        [sys.executable, "-c", START + code, *arguments],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("verb", ["report", "evaluate"])
def test_what_runs_after_the_start_finds_no_key(verb: str) -> None:
    done = command(LOOKING, verb, OPENAI_API_KEY=KEY, KERNELBLASTER_API_KEY=KEY + "-own")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_commands_that_run_tasks_hide_all_but_what_these_need() -> None:
    secrets = {"PGPASSWORD": KEY, "AWS_SECRET_ACCESS_KEY": KEY, "MY_SETTING": KEY, "TORCH_TOKEN": KEY}
    done = command(LOOKING, "tasks", "check", "x.py", **secrets)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("how", [{"KERNELBLASTER_PASS": "MY_SETTING"}, {"KERNELBLASTER_TRUST_TASKS": "1"}])
def test_a_user_may_pass_more(how: dict[str, str]) -> None:
    done = command(LOOKING, "tasks", "check", "x.py", MY_SETTING=KEY, **how)
    assert "os.environ" in done.stdout


def test_a_key_is_passed_by_no_name() -> None:
    done = command(LOOKING, "tasks", "check", "x.py", OPENAI_API_KEY=KEY, KERNELBLASTER_PASS="OPENAI_API_KEY")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("form", ["--kb {}", "--kb={}"])
def test_a_password_among_the_arguments_is_hidden(form: str) -> None:
    url = f"postgresql://me:{KEY}@host/db?sslpassword={KEY}"
    looking = (
        LOOKING + "\nimport sys\nprint(sys.argv[-1], planted in open('/proc/self/cmdline', 'rb').read())"
    )
    done = command(looking, "optimize", "x.py", *form.format(url).split())
    shown = form.rsplit(maxsplit=1)[-1].format("postgresql://me:***@host/db?sslpassword=***")
    assert done.stdout == f"{shown} False\n", done.stderr


def test_looking_would_find_a_key_that_is_not_hidden() -> None:
    done = command(LOOKING, "report", HIDDEN_BY_NOBODY=KEY)
    assert "/proc/self/environ" in done.stdout and "os.environ" in done.stdout


def test_the_command_starts_so(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(start, "hide", lambda: order.append("hidden"))
    monkeypatch.setattr("kernelblaster.cli.main.main", lambda: order.append("command"))
    start.main()
    assert order == ["hidden", "command"]


def test_the_keeper_makes_the_calls_and_only_the_server_sees_the_key() -> None:
    script = Script(Says('{"product": 42}'))
    with serving(script) as address:
        done = command(CHECKING, f"openai:m@{address}/v1", KERNELBLASTER_API_KEY=KEY)
    assert "6 times 7 is 42" in done.stdout and KEY not in done.stdout + done.stderr, done.stderr
    assert script.headers[0]["authorization"] == f"Bearer {KEY}"


def test_no_server_is_named_anew_once_a_task_file_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(module_file, "seal", lambda: order.append("sealed"))
    monkeypatch.setattr("builtins.order", order, raising=False)
    with pytest.raises(BadTask):
        module_file.ModuleFile("order.append('task')", "task.py")
    assert order == ["sealed", "task"]


def exchange(key: str, url: str) -> dict[str, object]:
    common = {"name": "x", "speaks": "openai", "path": "chat/completions", "body": {}}
    return {"do": "answer", "exchange": {**common, "key": key, "url": url, "limits": {"call_s": 1}}}


@pytest.mark.parametrize(
    ("key", "claimed"), [("OPENAI_API_KEY", True), (OWN_KEY, False), ("OPENAI_API_KEY", False)]
)
def test_a_key_goes_to_no_server_that_it_was_not_given_for(key: str, claimed: bool) -> None:
    script = Script(Says('{"product": 42}'))
    keeping = KeptKeys({key: KEY})
    with serving(script) as address:
        if claimed:
            keeping.claim(f"{address}/v1")
        told = keeping.reply(exchange(key, f"{address}/v1"))
    assert told["failure"]["kind"] == "NotAllowed" and not script.calls


def test_a_kind_of_server_that_was_not_named_gets_no_call() -> None:
    keeping = KeptKeys({"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY})
    keeping.claim(KINDS["openai"].url)
    told = keeping.reply(exchange("ANTHROPIC_API_KEY", KINDS["anthropic"].url))
    assert told["failure"]["kind"] == "NotAllowed"


@pytest.mark.parametrize("path", ["files", "fine_tuning/jobs", "models/../files", "chat/completions?x", ""])
def test_nothing_but_models_is_asked_of_a_server(path: str) -> None:
    script = Script(Says('{"product": 42}'))
    keeping = KeptKeys({OWN_KEY: KEY})
    with serving(script) as address:
        keeping.claim(f"{address}/v1")
        message = exchange(OWN_KEY, f"{address}/v1")
        told = keeping.reply(message | {"exchange": {**message["exchange"], "path": path}})  # type: ignore[dict-item]
    assert told["failure"]["kind"] == "NotAllowed" and not script.calls


@pytest.mark.parametrize("message", [{"do": "answer"}, {"do": "context", "exchange": {"key": 1}}])
def test_what_is_no_call_is_refused(message: dict[str, object]) -> None:
    assert KeptKeys({OWN_KEY: KEY}).reply(message)["failure"]["kind"] == "NotAllowed"


def test_the_keys_that_are_hidden_are_those_that_servers_get() -> None:
    assert {kind.key for kind in KINDS.values()} | {OWN_KEY} == set(KEYS)

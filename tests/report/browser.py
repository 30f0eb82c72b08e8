"""A headless Chromium, driven over a pipe by the DevTools protocol: no driver, no package."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LAPTOP, PHONE = (1280, 800), (390, 844)


def installed() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page. `errors` are exceptions and errors on its console."""

    def __init__(self, program: str) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        command += ["--disable-dev-shm-usage", f"--user-data-dir={self._home.name}", "--hide-scrollbars"]
        command += ["--no-first-run", "--disable-extensions", "about:blank"]

        def place() -> None:
            """The browser reads from descriptor 3 and writes to 4."""
            high = [os.dup2(to_read, 20), os.dup2(to_write, 21)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            command,
            preexec_fn=place,  # noqa: PLW1509 (no threads here yet)
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._buffer = b""
        self._session: str | None = None
        self.errors: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._home.cleanup()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._next()
            if heard.get("id") == self._number:
                if "error" in heard:
                    raise RuntimeError(f"{method}: {heard['error']}")
                return dict(heard["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._from, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        heard: dict[str, Any] = json.loads(text)
        params = heard.get("params", {})
        if heard.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif heard.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif heard.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
        return heard

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = 20.0) -> None:
        """Until an expression is true."""
        until = time.monotonic() + seconds
        while not self._holds(script):
            if time.monotonic() > until:
                raise TimeoutError(script)
            time.sleep(0.05)

    def _holds(self, script: str) -> bool:
        """Whether an expression is true now; no, if the page is just left for another one."""
        try:
            return bool(self.run(script))
        except RuntimeError as error:
            if "navigated" in str(error):
                return False
            raise

    def look(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """The size of the window, and whether the person likes it dark."""
        phone = size[0] < 600
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path | str) -> None:
        """A file, or an address."""
        self.ask("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def click(self, selector: str) -> None:
        """A real click in the middle of an element."""
        place = self.run(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)});"
            "node.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = node.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
            )

    def press(self, key: str) -> None:
        """A key, as a person presses it."""
        about: dict[str, Any] = {"key": key}
        if len(key) == 1:
            about["text"] = key
        if key == "Enter":
            about |= {"text": "\r", "windowsVirtualKeyCode": 13}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **about)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def picture(self, to: Path, *, whole: bool = False) -> None:
        params: dict[str, Any] = {"format": "png"}
        if whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            params |= {"captureBeyondViewport": True}
            params["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        to.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", **params)["data"]))

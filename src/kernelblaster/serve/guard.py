"""Checks every request before it is answered: its host name (against DNS rebinding), the site that it comes
from (against cross-site requests), and the token.

Answers carry a content policy, so that browsers run only the scripts of this server, even if a text that a
page shows contains a script.
"""

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "kernelblaster"
SHORTEST_TOKEN = 16
LOGIN = "/login"
OPEN = ("/static/",)  # what needs no token: style and scripts, which say nothing about anybody
LOOPBACK = ("127.0.0.1", "::1", "localhost")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types kernelblaster",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Access:
    """Who may use the server. `hosts` are the names, without a port, by which browsers may address it.
    `any_address`: any numeric address (like 10.0.0.7) is allowed as well. That is safe: an attacker can make
    a name of his own lead to this server (DNS rebinding), but not a numeric address. `token` is the secret
    that a client must send; None: none is needed."""

    hosts: frozenset[str]
    token: str | None = None
    any_address: bool = False

    def answers_to(self, host: str) -> bool:
        """True if browsers may address the server by this host name or address. A request with any other one
        may be an attack by a page of another site (DNS rebinding)."""
        return host in self.hosts or (self.any_address and _is_address(host))

    def knows(self, given: str | None) -> bool:
        """True if `given` is the server's token, or if it needs none. The comparison takes the same time for
        every wrong token, so that the time reveals nothing."""
        if self.token is None:
            return True
        digests = [hashlib.sha256((text or "").encode()).digest() for text in (given, self.token)]
        return hmac.compare_digest(*digests) and given is not None

    @property
    def cookie(self) -> str:
        """The value of the cookie that a browser sends instead of the token; the token cannot be computed
        from it."""
        return hmac.new((self.token or "").encode(), b"kernelblaster cookie", hashlib.sha256).hexdigest()

    def admits(self, headers: Headers) -> bool:
        """Whether a request with these headers may pass: if it has the token in its `Authorization` header,
        or the cookie that is set when somebody logs in with the token. Always True if no token is needed."""
        if self.token is None:
            return True
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.knows(token.strip())
        shown = _cookie(headers.get("cookie", ""))
        return hmac.compare_digest(shown.encode(), self.cookie.encode())


class RequestGuard:
    """Wraps the ASGI application `app`: requests that fail the checks of this module are answered with an
    error and never reach it. `access` says which host names and tokens are allowed. `methods` are the HTTP
    methods that are allowed."""

    def __init__(
        self, app: ASGIApp, access: Access, methods: Collection[str] = ("GET", "HEAD", "POST")
    ) -> None:
        self._app = app
        self._access = access
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in own]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        """The error to answer a request with, if its host, site, method or token is not allowed; None if it
        may pass."""
        host = _host_name(request.headers.get("host", ""))
        if not self._access.answers_to(host):
            return PlainTextResponse(
                "This server does not answer to that host name. Open it by the address that it printed, "
                "or name the host when it is started (--allow-host).\n",
                421,
            )
        if not _own_site(request):
            return PlainTextResponse(
                "Requests from other sites are refused. Type the address instead.\n", 403
            )
        if request.method not in self._methods:
            return PlainTextResponse(f"Only {', '.join(self._methods)}.\n", 405)
        path = request.url.path
        if path == LOGIN or path.startswith(OPEN) or self._access.admits(request.headers):
            return None
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(LOGIN, 303)
        return JSONResponse({"error": "a token is needed"}, 401, {"www-authenticate": "Bearer"})


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine itself (`localhost`, 127.0.0.1, ::1)."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def access_to(host: str, more: Collection[str], token: str | None) -> Access:
    """Returns who may use a server that listens on `host`. Browsers may address it by `host` and by the names
    in `more`. If `host` is the loopback interface of this machine, all its names are allowed (`localhost`,
    127.0.0.1, ::1). If `host` means all addresses (0.0.0.0), any address and this machine's name are allowed
    as well. `token` is what clients must send; None: nothing."""
    everywhere = host.strip("[]") in ("0.0.0.0", "::", "")
    own = LOOPBACK if is_loopback(host) or everywhere else (host.strip("[]"),)
    if everywhere:
        own = (*own, socket.gethostname())
    return Access(frozenset(name.lower() for name in (*own, *more)), token, everywhere)


def _is_address(host: str) -> bool:
    """Whether a host is given by a numeric IP address rather than by a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host_name(header: str) -> str:
    """The host in the value of a `Host` header, in lower case and without the port."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.rpartition(":")[2].isdigit() and ":" in text else text


def _own_site(request: Request) -> bool:
    """Whether a request comes from a page of this server, from somebody who typed the address, or from a
    program that is no browser. What changes something must not come from elsewhere, whatever the browser
    says of it."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:  # no script of a page can set or change it
        return site == "same-origin" or (site == "none" and request.method in ("GET", "HEAD"))
    origin = request.headers.get("origin")
    if origin is None:
        return True
    return origin.partition("://")[2].lower() == request.headers.get("host", "").lower()


def _cookie(header: str) -> str:
    """The value of the dashboard's own cookie in a `Cookie` header; empty if it is not there."""
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""

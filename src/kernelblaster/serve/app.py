"""The addresses of the dashboard: pages, parts of pages that are loaded when they are needed, changes as they
happen, and requests of people to searches."""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kernelblaster.errors import KernelBlasterError, StoreError
from kernelblaster.report.run.page import run_page
from kernelblaster.serve.actions import ACTIONS
from kernelblaster.serve.catalog import ListedRun
from kernelblaster.serve.dashboard import Dashboard, SafeView, filter_of
from kernelblaster.serve.guard import COOKIE, LOGIN, Access, RequestGuard
from kernelblaster.serve.rendering import render, render_macro, static_files
from kernelblaster.serve.stream import EventStream
from kernelblaster.serve.topics import PagePart, Topic
from kernelblaster.serve.views.runs import SHOWN, SORTS, chosen, count_states
from kernelblaster.store.files import Files

MOST_CLIENTS = 400
LARGEST_BODY = 16_000  # bytes of a request
NO_STORE = {"cache-control": "no-store"}
FOREVER = {"cache-control": "private, max-age=31536000, immutable"}


def make_app(dashboard: Dashboard, access: Access) -> ASGIApp:
    """Returns the web application of `dashboard`: all addresses with their handlers, behind the checks of
    `RequestGuard` (host name, site, token), for which `access` has the allowed host names and the token."""
    pages = Pages(dashboard, access)
    routes = [
        Route("/", pages.runs),
        Route("/rows", pages.rows),
        Route("/runs/{id}", pages.run),
        Route("/runs/{id}/steps/{step}", pages.step),
        Route("/runs/{id}/exchanges/{number:int}", pages.exchange),
        Route("/runs/{id}/sources/{name}", pages.source),
        Route("/runs/{id}/report.html", pages.report),
        Route("/compare", pages.compare),
        Route("/benches", pages.benches),
        Route("/benches/{id}", pages.bench),
        Route("/knowledge", pages.knowledge_list),
        Route("/knowledge/{name}", pages.knowledge),
        Route("/live", pages.live),
        Route(LOGIN, pages.login),
        Route(LOGIN, pages.log_in, methods=["POST"]),
        Route("/logout", pages.log_out, methods=["POST"]),
        Route("/static/{name}", pages.static),
    ]
    for name, action in ACTIONS.items():
        routes.append(Route(f"/runs/{{id}}/{name}", partial(pages.act, action), methods=["POST"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _failed, 500: _broken})
    return RequestGuard(app, access)


class Pages:
    """Answers the requests for each address of `dashboard`; `access` says whom it may answer. Methods that
    read files are plain functions, so that Starlette calls them in threads."""

    def __init__(self, dashboard: Dashboard, access: Access) -> None:
        self._dashboard = dashboard
        self._access = access
        self._static = {
            name: (content, kind, hashlib.sha256(content).hexdigest()[:16])
            for name, (content, kind) in static_files().items()
        }

    # Lists

    def runs(self, request: Request) -> Response:
        """Answers with the page that lists all runs, filtered and sorted as the request's query says."""
        with self._dashboard.catalog.making_page():
            return self._runs(request)

    def _runs(self, request: Request) -> Response:
        """The page that lists all runs."""
        topic = self._topic("runs")
        runs, query = self._chosen(request)
        everything = "all" in request.query_params
        shown = runs if everything else runs[:SHOWN]
        every = self._dashboard.catalog.runs()
        return self._page(
            "runs.html",
            topic,
            title="Runs",
            lines=[self._dashboard.lines.html(one) for one in shown],
            states=count_states(every),
            sorts=SORTS,
            query=query,
            hidden=len(runs) - len(shown),
            total=len(every),
            folders=[str(folder) for folder in self._dashboard.served.folders],
        )

    def rows(self, request: Request) -> Response:
        """Answers with the lines of the list of runs, as HTML, that fit the filter in the request's query.
        The page that shows the list replaces its lines by these."""
        runs, _ = self._chosen(request)
        shown = runs if "all" in request.query_params else runs[:SHOWN]
        lines = [self._dashboard.lines.html(one) for one in shown]
        html = render_macro("lines.html", "run_lines", lines, len(runs), len(runs) - len(shown))
        return HTMLResponse(html, headers=NO_STORE)

    def benches(self, request: Request) -> Response:
        return self._page("benches.html", self._topic("benches"), title="Benches")

    def knowledge_list(self, request: Request) -> Response:
        """Answers with the page that lists all knowledge bases; where there is only one, with a redirect to
        its page."""
        named = [(name, name) for name in self._dashboard.served.knowledge]
        benches = [(f"bench~{place.id}", place.folder.name) for place in self._dashboard.catalog.benches()]
        known = named + [(id_, name) for id_, name in benches if self._dashboard.knowledge_at(id_)]
        if len(known) == 1:
            return RedirectResponse(f"/knowledge/{quote(known[0][0])}", 303)
        html = render("knowledge_list.html", title="Knowledge", known=known, **self._frame())
        return HTMLResponse(html, headers=NO_STORE)

    # One thing

    def run(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        listed = self._listed(id_)
        others = [one for one in self._dashboard.catalog.runs(listed.place.bench) if one is not listed][
            :SHOWN
        ]
        choices = [(one.place.id, f"{one.summary.task} {one.place.folder.name}") for one in others]
        topic = self._topic(f"run/{id_}")
        version, parts = topic.page()
        view: Any = topic.view
        about = view.inner.history.about  # not the summary: a list may not have been read to its end yet
        return self._rendered(
            "run.html",
            topic,
            version,
            parts,
            title=str(about.get("task") or listed.place.folder.name),
            id=id_,
            bench=listed.place.bench,
            others=choices,
            with_model=bool(about.get("models")),
            by_others=view.inner.by_others,
            address=f"/runs/{quote(id_)}",
        )

    def step(self, request: Request) -> Response:
        """Answers with the details of one step of a run, as HTML, which the page shows when the reader
        unfolds the step's line. The address names the run and the step. 404 if the run has no such step."""
        view = self._run_view(request)
        try:
            row, detail = view.detail(request.path_params["step"])
        except KeyError as error:
            raise HTTPException(404, "There is no such step.") from error
        html = render_macro("components.html", "step_detail", row, detail)
        return HTMLResponse(html, headers=NO_STORE)

    def exchange(self, request: Request) -> Response:
        """Answers with the texts of one question to a language model and of its answer, as HTML. The address
        names the run and the number of the question's event in the run's log. 404 if there is none with this
        number."""
        view = self._run_view(request)
        try:
            found = view.exchange(request.path_params["number"])
        except StoreError as error:
            raise HTTPException(404, str(error)) from error
        if found is None:
            raise HTTPException(404, "There is no such question.")
        html = render_macro("components.html", "exchange_texts", found)
        return HTMLResponse(html, headers=NO_STORE)

    def source(self, request: Request) -> Response:
        """Answers with a source text that a run stores; the address names the run and the text, by a hash of
        it. The browser may keep it forever. 404 if there is none."""
        name = request.path_params["name"]
        if not (len(name) == 32 and set(name) <= set("0123456789abcdef")):
            raise HTTPException(404, "There is no such source.")
        folder = self._listed(request.path_params["id"]).place.folder
        try:
            text = Files(folder / "files").get(name)
        except StoreError as error:
            raise HTTPException(404, "There is no such source.") from error
        return PlainTextResponse(text, headers=FOREVER | {"content-disposition": "attachment"})

    def report(self, request: Request) -> Response:
        """Answers with the report on a run as one HTML file to download. 409 if it cannot be made."""
        listed = self._listed(request.path_params["id"])
        folder = listed.place.folder
        try:
            html = run_page(folder, Path("/nonexistent"))
        except KernelBlasterError as error:
            raise HTTPException(409, str(error)) from error
        name = quote(f"{folder.name}.html")
        headers = NO_STORE | {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(html, media_type="application/octet-stream", headers=headers)

    def compare(self, request: Request) -> Response:
        one, other = (request.query_params.get(name, "") for name in "ab")
        runs = self._listed(one), self._listed(other)
        return self._page(
            "compare.html",
            self._topic(f"compare/{one}/{other}"),
            title=" and ".join(run.place.folder.name for run in runs),
            swap="/compare?" + urlencode({"a": other, "b": one}),
            address=f"/runs/{quote(one)}",
        )

    def bench(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        topic = self._topic(f"bench/{id_}")
        view: Any = topic.view
        version, parts = topic.page()
        inner = view.inner if isinstance(view, SafeView) else view
        return self._rendered(
            "bench.html", topic, version, parts, title=inner.place.folder.name, baselines=inner.baselines
        )

    def knowledge(self, request: Request) -> Response:
        name = request.path_params["name"]
        wanted = filter_of(str(request.url.query))
        chosen_ = {"gpu": wanted.architecture, "family": wanted.family, "clock": wanted.clock}
        query = urlencode({key: value for key, value in chosen_.items() if value})
        topic = self._topic(f"knowledge/{name}" + (f"?{query}" if query else ""))
        version, parts = topic.page()
        view: Any = topic.view
        return self._rendered(
            "knowledge.html",
            topic,
            version,
            parts,
            title=Path(view.inner.where).stem if "://" not in view.inner.where else name,
            name=name,
            wanted=wanted,
            choices=view.inner.choices,
        )

    # Live

    async def live(self, request: Request) -> Response:
        """Answers with a stream (server-sent events) by which an open page gets the changes of what it shows,
        as long as it is open. The query names the page's topic. 404 if there is no such topic; 503 if 400
        pages (MOST_CLIENTS) are open."""
        if self._dashboard.hub.clients >= MOST_CLIENTS:
            return PlainTextResponse("Too many pages are open.\n", 503, {"retry-after": "10"})
        name = request.query_params.get("topic", "")
        topic = await run_in_threadpool(self._dashboard.hub.topic, name)
        if topic is None:
            raise HTTPException(404, "There is no such thing any more.")
        since = request.query_params.get("since", "")
        known = request.query_params.get("epoch") == topic.epoch and since.isascii() and since.isdigit()
        return EventStream(topic, int(since) if known else None, {})  # type: ignore[return-value]

    async def act(self, action: Callable[..., dict[str, Any]], request: Request) -> Response:
        """Does what a person asks of the run that the address names: calls `action` with the JSON in the
        request's body, and answers with its result. 403 if the dashboard is read-only, 409 if the action
        fails."""
        if self._dashboard.served.read_only:
            raise HTTPException(403, "This dashboard only shows; it was started with --read-only.")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "Send JSON.")
        body = await _body(request)
        try:
            data = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, "This is no JSON.") from error
        if not isinstance(data, dict):
            raise HTTPException(400, "Send an object.")
        folder = self._listed(request.path_params["id"]).place.folder
        try:
            done = await run_in_threadpool(action, self._dashboard, folder, data)
        except KernelBlasterError as error:
            raise HTTPException(409, str(error)) from error
        return JSONResponse(done, headers=NO_STORE)

    # Who may look

    def login(self, request: Request) -> Response:
        if self._access.token is None or self._access.admits(request.headers):
            return RedirectResponse("/", 303)
        return HTMLResponse(render("login.html", wrong=False), headers=NO_STORE)

    async def log_in(self, request: Request) -> Response:
        """Sets a cookie for whoever sends the right token, and redirects to the first page; shows the login
        page again (401) to others."""
        fields = parse_qs((await _body(request)).decode(errors="replace"))
        if not self._access.knows(fields.get("token", [""])[0].strip()):
            return HTMLResponse(render("login.html", wrong=True), 401, headers=NO_STORE)
        response = RedirectResponse("/", 303)
        if self._access.token is not None:
            response.set_cookie(
                COOKIE,
                self._access.cookie,
                max_age=30 * 86400,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return response

    def log_out(self, request: Request) -> Response:
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    def static(self, request: Request) -> Response:
        """Answers with a style sheet or a script of the dashboard; 304 if the browser has it, 404 if there is
        no such file."""
        found = self._static.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "There is no such file.")
        content, kind, tag = found
        headers = {"cache-control": "no-cache", "etag": f'"{tag}"'}
        if request.headers.get("if-none-match") == f'"{tag}"':
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    # Parts

    def _page(self, template: str, topic: Topic, **values: Any) -> Response:
        """The page made of a template and the present parts of a topic, which is kept up to date
        afterwards."""
        version, parts = topic.page()
        return self._rendered(template, topic, version, parts, **values)

    def _rendered(
        self, template: str, topic: Topic, version: int, parts: list[PagePart], **values: Any
    ) -> Response:
        """The page made of a template and these parts of a topic, in this version, from which it is kept up
        to date."""
        single = PartsById({part.id: part.html for part in parts if not part.within})
        within: dict[str, list[str]] = {}
        for part in parts:
            if part.within:
                within.setdefault(part.within, []).append(part.html)
        live = {"topic": topic.name, "epoch": topic.epoch, "version": version}
        html = render(template, parts=single, within=within, live=live, **values, **self._frame())
        return HTMLResponse(html, headers=NO_STORE)

    def _frame(self) -> dict[str, Any]:
        """The values that the frame of every page needs: whether a token is in use, and whether searches can
        be changed."""
        served = self._dashboard.served
        return {"with_token": self._access.token is not None, "read_only": served.read_only}

    def _topic(self, name: str) -> Topic:
        """The content of the page with this name; the folders are looked at again if it is not known, since
        it may have just been made. 404 if there is no such thing."""
        topic = self._dashboard.hub.topic(name)
        if topic is None:
            self._dashboard.catalog.poll(now=True)
            topic = self._dashboard.hub.topic(name)
        if topic is None:
            raise HTTPException(404, "There is no such thing here.")
        return topic

    def _listed(self, id_: str) -> ListedRun:
        listed = self._dashboard.catalog.run(id_)
        if listed is None:
            self._dashboard.catalog.poll(now=True)
            listed = self._dashboard.catalog.run(id_)
        if listed is None:
            raise HTTPException(404, "There is no such run here.")
        return listed

    def _run_view(self, request: Request) -> Any:
        """The content of the page of the run that the request names, after reading what is new in its log."""
        topic = self._topic(f"run/{request.path_params['id']}")
        topic.page()
        view: Any = topic.view
        return view.inner

    def _chosen(self, request: Request) -> tuple[list[ListedRun], dict[str, str]]:
        """The runs to list for a request, and its query: `q` (words), `state`, `sort`. The folders are looked
        at first."""
        catalog = self._dashboard.catalog
        catalog.poll()
        given = request.query_params
        query = {
            "q": given.get("q", "")[:200],
            "state": given.get("state", ""),
            "sort": given.get("sort", ""),
        }
        return chosen(catalog.runs(), query["q"], query["state"], query["sort"]), query


class PartsById(dict[str, str]):
    """A dictionary with the HTML of a page's parts by their ids. For an id without a part, gives an empty
    hidden element with that id, so that the browser can replace it when the part comes."""

    def __missing__(self, id_: str) -> str:
        return Markup('<div id="{}" hidden></div>').format(id_)


async def _body(request: Request) -> bytes:
    """Reads the whole body of a request. Raises HTTPException (413) if it is longer than LARGEST_BODY
    bytes."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise HTTPException(413, "This is too long.")
    return body


def _failed(request: Request, error: Exception) -> Response:
    """The answer to a request for which a handler raised HTTPException: a page for browsers, JSON for
    scripts, with the error's status."""
    assert isinstance(error, HTTPException)
    if "text/html" in request.headers.get("accept", "") and request.method == "GET":
        html = render("message.html", title=str(error.status_code), words=error.detail)
        return HTMLResponse(html, error.status_code, headers=NO_STORE)
    return JSONResponse({"error": error.detail}, error.status_code, headers=NO_STORE)


def _broken(request: Request, error: Exception) -> Response:
    """The answer to a request in which the dashboard itself failed (500). The reason is in its log only,
    since it may have private data."""
    return PlainTextResponse("Something went wrong here; the log of the dashboard says what.\n", 500)

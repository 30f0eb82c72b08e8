"""Who may ask what: other hosts, other sites and wrong tokens are refused, and every answer has the
policy."""

import logging
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kernelblaster.errors import KernelBlasterError
from kernelblaster.serve.guard import COOKIE, access_to, is_loopback
from kernelblaster.serve.server import Listening, read_token, serve
from tests.report.made_run import made_run
from tests.serve.site import BASE, TOKEN, client_of, dashboard_of

RUN = "r1"
PATHS = [
    "/",
    "/rows",
    f"/runs/{RUN}",
    "/benches",
    "/knowledge",
    "/compare?a=r1&b=r1",
    "/nothing",
    "/static/live.js",
]
JSON = {"content-type": "application/json"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made_run(tmp_path / RUN, [("Slower", 125.0), ("Accepted", 25.0)])
    return tmp_path


@pytest.fixture
def open_client(root: Path) -> TestClient:
    return client_of(dashboard_of(root))


@pytest.fixture
def closed(root: Path) -> TestClient:
    return client_of(dashboard_of(root), TOKEN)


@pytest.mark.parametrize("path", [*PATHS, "/login"])
def test_every_answer_has_the_policy_and_no_page_can_be_framed(open_client: TestClient, path: str) -> None:
    headers = open_client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", PATHS)
def test_pages_have_nothing_inline(open_client: TestClient, path: str) -> None:
    text = open_client.get(path).text
    if "<html" in text:
        assert "<style" not in text and " style=" not in text and "onclick" not in text
        assert text.count("<script") == text.count('<script src="/static/') and "http://" not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "", "localhost.evil"]
)
def test_other_host_names_are_refused(open_client: TestClient, host: str) -> None:
    reply = open_client.get("/", headers={"host": host})
    assert reply.status_code == 421 and RUN not in reply.text


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "localhost:1", "LOCALHOST", "[::1]:8420"])
def test_names_of_this_machine_are_fine(open_client: TestClient, host: str) -> None:
    assert open_client.get("/", headers={"host": host}).status_code == 200


def test_names_that_were_allowed_and_addresses_where_it_listens_on_all() -> None:
    given = access_to("0.0.0.0", ("GPU-box",), TOKEN)
    assert given.answers_to("gpu-box") and given.answers_to("10.1.2.3") and given.answers_to("fe80::1")
    assert not given.answers_to("evil.example")
    alone = access_to("10.1.2.3", (), TOKEN)
    assert (
        alone.answers_to("10.1.2.3")
        and not alone.answers_to("10.1.2.4")
        and not alone.answers_to("localhost")
    )
    assert is_loopback("127.3.2.1") and is_loopback("[::1]") and not is_loopback("0.0.0.0")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/", f"/runs/{RUN}", "/live?topic=runs", "/static/live.js"])
def test_what_another_site_asks_for_is_refused(open_client: TestClient, path: str, site: str) -> None:
    assert open_client.get(path, headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize("path", ["/", f"/runs/{RUN}"])
def test_an_origin_that_is_not_ours_is_refused_even_without_what_browsers_add(
    open_client: TestClient, path: str
) -> None:
    for origin in ("http://evil.example", "http://127.0.0.1:9999", "null", "http://127.0.0.1"):
        assert open_client.get(path, headers={"origin": origin}).status_code == 403
        assert (
            open_client.post(f"{path}/stop", headers={"origin": origin, **JSON}, json={}).status_code == 403
        )


def test_actions_need_json_and_a_page_of_ours(open_client: TestClient) -> None:
    address = f"/runs/{RUN}/steer"
    asked = {"budget": 40}
    assert open_client.post(address, json=asked, headers={"sec-fetch-site": "none"}).status_code == 403
    assert open_client.post(address, data={"budget": "40"}).status_code == 415
    assert open_client.post(address, content="{", headers=JSON).status_code == 400
    assert open_client.post(address, content="[1]", headers=JSON).status_code == 400
    assert open_client.post(address, content="[" * 5000, headers=JSON).status_code == 400
    assert open_client.post(address, content=b" " * 20_000, headers=JSON).status_code == 413
    assert open_client.get(address).status_code in (404, 405), "nothing is done by GET"
    ours = {"origin": BASE, "sec-fetch-site": "same-origin"}
    assert open_client.post(address, json=asked, headers=ours).status_code == 200
    assert open_client.put(address, json=asked).status_code == 405


@pytest.mark.parametrize("path", [p for p in PATHS if not p.startswith("/static")] + ["/live?topic=runs"])
def test_without_the_token_nothing_is_shown(closed: TestClient, path: str) -> None:
    page = closed.get(path)
    assert page.status_code == 303 and page.headers["location"] == "/login"
    asked = closed.get(path, headers={"accept": "*/*"})
    assert asked.status_code == 401 and asked.json() == {"error": "a token is needed"}
    for wrong in ("x", TOKEN[:-1], TOKEN + "x", "", TOKEN.upper()):
        assert closed.get(path, headers={"authorization": f"Bearer {wrong}"}).status_code in (303, 401)
        assert closed.get(path, headers={"cookie": f"{COOKIE}={wrong}"}).status_code == 303
    assert closed.post(f"/runs/{RUN}/stop", json={}).status_code == 401


def test_a_token_in_an_address_counts_for_nothing(closed: TestClient) -> None:
    for path in (f"/?token={TOKEN}", f"/?access_token={TOKEN}", f"/login?token={TOKEN}"):
        assert RUN not in closed.get(path).text


def test_a_token_in_a_header_is_enough(closed: TestClient) -> None:
    given = {"authorization": f"Bearer {TOKEN}"}
    assert closed.get("/", headers=given).status_code == 200
    assert closed.post(f"/runs/{RUN}/steer", json={"budget": 9}, headers=given).status_code == 200


def test_whoever_knows_the_token_gets_a_cookie_that_does_not_tell_it(
    closed: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert "Token" in closed.get("/login").text
    wrong = closed.post("/login", data={"token": "nope"})
    assert wrong.status_code == 401 and "set-cookie" not in wrong.headers
    reply = closed.post("/login", data={"token": f" {TOKEN} "})
    cookie = reply.headers["set-cookie"]
    assert (
        reply.status_code == 303
        and "HttpOnly" in cookie
        and "SameSite=strict" in cookie
        and "Path=/" in cookie
    )
    assert TOKEN not in cookie
    page = closed.get("/")
    assert page.status_code == 200 and RUN in page.text and TOKEN not in page.text
    assert closed.post("/logout", headers={"origin": BASE}).status_code == 303
    assert closed.get("/").status_code == 303
    assert TOKEN not in caplog.text


def test_other_tokens_make_other_cookies_and_nonsense_is_no_cookie() -> None:
    one, other = (access_to("127.0.0.1", (), token).cookie for token in (TOKEN, TOKEN + "x"))
    assert one != other and TOKEN not in one
    client = client_of(dashboard_of(), TOKEN)
    for header in (f"{COOKIE}=", "x" * 5000, f'{COOKIE}="\\', "\xff\xfe"):
        assert client.get("/", headers={"cookie": header.encode("latin-1")}).status_code == 303


def test_it_does_not_listen_to_others_without_a_token(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.168.1.2", "example.org", "::"):
        with pytest.raises(KernelBlasterError, match="token is needed"):
            serve([tmp_path], listening=Listening(host, 0))
    with pytest.raises(KernelBlasterError, match="too short"):
        serve([tmp_path], listening=Listening("127.0.0.1", 0, token="short"))


def test_a_token_file_is_made_for_its_owner_and_refused_if_others_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "token"
    token = read_token(file)
    assert len(token) >= 40 and read_token(file) == token and file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    with pytest.raises(KernelBlasterError, match="others can read it"):
        read_token(file)


def test_a_dashboard_that_only_shows_asks_nothing(root: Path) -> None:
    client = client_of(dashboard_of(root, read_only=True))
    assert "This dashboard only shows" in client.get(f"/runs/{RUN}").text
    reply = client.post(f"/runs/{RUN}/steer", json={"budget": 40})
    assert reply.status_code == 403 and not (root / RUN / "steering.jsonl").exists()

"""The proxy's configuration says what it costs, and takes nothing in that is no host, port or number."""

from __future__ import annotations

import re

import pytest

from vllm_runbooks import proxy
from vllm_runbooks.errors import InputError
from vllm_runbooks.proxy import Server

TWO = (Server("127.0.0.1", 8000), Server("127.0.0.1", 8001))


def directives(text: str) -> list[str]:
    """What nginx reads, without comments."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


@pytest.mark.parametrize(
    "host",
    [
        *("a;b", "a b", "a\nb", "a}", "", "-a", "a..b", "http://a", "a/b", "$host", "unix", "UNIX", "1.2.3", "a" * 254),
        *("fe80::1%eth0", "é", 'a"', "#a"),
    ],
)
def test_what_is_no_host_is_refused(host: str) -> None:
    """Some of it would be a directive, a path or a variable in nginx's eyes."""
    with pytest.raises(InputError, match="is no host"):
        Server(host, 8000)


@pytest.mark.parametrize("port", [0, -1, 65536, True])
def test_what_is_no_port_is_refused(port: int) -> None:
    """Ports go from 1 to 65535."""
    with pytest.raises(InputError, match="is no port"):
        Server("a", port)


@pytest.mark.parametrize(
    ("host", "written"),
    [("10.0.0.1", "10.0.0.1:8000"), ("gpu-node_1.lab", "gpu-node_1.lab:8000"), ("fd00::1", "[fd00::1]:8000")],
)
def test_a_host_is_written_as_nginx_reads_it(host: str, written: str) -> None:
    """An IPv6 address in brackets."""
    assert f"server {written};" in directives(proxy.nginx([Server(host, 8000)]))


def test_requests_go_to_the_server_with_the_fewest_and_answers_come_piece_by_piece() -> None:
    """Over HTTP/1.1, unbuffered, in all workers together, with time for a long answer and room for pictures."""
    text = proxy.nginx(TWO, timeout_s=7200, upload_mib=200)

    assert {
        *("least_conn;", "zone vllm 64k;", "proxy_buffering off;", "proxy_http_version 1.1;"),
        *('proxy_set_header Connection "";', "proxy_read_timeout 7200s;", "proxy_send_timeout 7200s;"),
        *("client_max_body_size 200m;", "server 127.0.0.1:8001 max_fails=1 fail_timeout=10s;"),
    } <= set(directives(text))
    assert "does not ask servers whether they are well" in re.sub(r"\s*#\s*|\s+", " ", text)


def test_connections_end_before_the_server_ends_them() -> None:
    """A request on a connection that vLLM closes after its 5 idle seconds would be lost."""
    (seconds,) = [
        int(found[1])
        for line in directives(proxy.nginx(TWO))
        if (found := re.match(r"keepalive_timeout (\d+)s;", line))
    ]

    assert seconds < 5


@pytest.mark.parametrize(
    ("retries_posts", "directive", "said"),
    [
        (False, "proxy_next_upstream error timeout;", "every request that it holds at that moment is lost"),
        (True, "proxy_next_upstream error timeout non_idempotent;", "the same request may run twice"),
    ],
)
def test_sending_a_request_again_is_a_choice_and_the_file_names_its_price(
    *, retries_posts: bool, directive: str, said: str
) -> None:
    """What is lost without it, what may happen twice with it; an answer that has begun is never sent again."""
    text = proxy.nginx(TWO, retries_posts=retries_posts)
    comments = re.sub(r"\s*#\s*|\s+", " ", text)

    assert directive in directives(text)
    assert said in comments
    assert "cut off" in comments


def test_an_open_port_is_called_one() -> None:
    """This machine's own address is none."""
    assert "open to the network" in proxy.nginx(TWO, listen=Server("10.0.0.1", 80))
    assert "open to the network" not in proxy.nginx(TWO)


def test_a_part_for_a_folder_of_configurations_has_no_frame() -> None:
    """It stands inside of another file's `http`."""
    text = proxy.nginx(TWO, is_whole=False)

    assert not {"events {", "http {"} & set(directives(text))
    assert directives(text)[0] == "upstream vllm {"


@pytest.mark.parametrize(
    ("servers", "more"),
    [
        ((), {}),
        ((TWO[0], TWO[0]), {}),
        ((Server("A", 1), Server("a", 1)), {}),
        ((Server("127.0.0.1", 8080),), {}),
        (TWO, {"timeout_s": 0}),
        (TWO, {"upload_mib": 70000}),
        (TWO, {"timeout_s": True}),
    ],
)
def test_what_cannot_work_is_refused(servers: tuple[Server, ...], more: dict[str, int]) -> None:
    """No server, one twice, the proxy as its own server, a number out of range."""
    with pytest.raises(InputError):
        proxy.nginx(servers, **more)  # type: ignore[arg-type]

"""The proxy's configuration states its costs and accepts only hosts, ports and numbers."""

from __future__ import annotations

import re

import pytest

from rows import in_one_test
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import proxy
from vllm_runbooks.plan.proxy import ProxyServer

TWO = (ProxyServer("127.0.0.1", 8000), ProxyServer("127.0.0.1", 8001))


def directives(text: str) -> list[str]:
    """The directives that nginx reads, without comments."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


@in_one_test(
    "host",
    [
        *("a;b", "a b", "a\nb", "a}", "", "-a", "a..b", "http://a", "a/b", "$host", "unix", "UNIX", "1.2.3", "a" * 254),
        *("fe80::1%eth0", "é", 'a"', "#a"),
    ],
)
def test_an_invalid_host_is_rejected(host: str) -> None:
    """Some of it would be a directive, a path or a variable in nginx's eyes."""
    with pytest.raises(InputError, match="is not a host"):
        ProxyServer(host, 8000)


@pytest.mark.parametrize("port", [0, -1, 65536, True])
def test_an_invalid_port_is_rejected(port: int) -> None:
    """Ports are 1 to 65535."""
    with pytest.raises(InputError, match="is not a port"):
        ProxyServer("a", port)


@pytest.mark.parametrize(
    ("host", "written"),
    [("10.0.0.1", "10.0.0.1:8000"), ("gpu-node_1.lab", "gpu-node_1.lab:8000"), ("fd00::1", "[fd00::1]:8000")],
)
def test_a_host_has_the_syntax_of_nginx(host: str, written: str) -> None:
    """An IPv6 address in brackets."""
    assert f"server {written};" in directives(proxy.nginx([ProxyServer(host, 8000)]))


def test_requests_go_to_the_least_busy_server_and_answers_are_streamed() -> None:
    """HTTP/1.1, unbuffered, across all workers, with long timeouts and large bodies."""
    text = proxy.nginx(TWO)

    assert {
        *("least_conn;", "zone vllm 64k;", "proxy_buffering off;", "proxy_http_version 1.1;"),
        *('proxy_set_header Connection "";', "proxy_read_timeout 3600s;", "proxy_send_timeout 3600s;"),
        *("client_max_body_size 64m;", "server 127.0.0.1:8001 max_fails=1 fail_timeout=10s;"),
    } <= set(directives(text))
    assert "has no active health checks. After a failed request" in re.sub(r"\s*#\s*|\s+", " ", text)


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
        (False, "proxy_next_upstream error timeout;", "dies, its requests in flight are lost"),
        (True, "proxy_next_upstream error timeout non_idempotent;", "the same request may run twice"),
    ],
)
def test_retrying_a_request_is_optional_and_its_cost_is_in_the_file(
    *, retries_posts: bool, directive: str, said: str
) -> None:
    """Without it requests are lost, with it some run twice; a begun answer is never retried."""
    text = proxy.nginx(TWO, retries_posts=retries_posts)
    comments = re.sub(r"\s*#\s*|\s+", " ", text)

    assert directive in directives(text)
    assert said in comments
    assert "cut off" in comments


def test_an_open_port_is_reported() -> None:
    """A local address is not open."""
    assert "open to the network" in proxy.nginx(TWO, listen=ProxyServer("10.0.0.1", 80))
    assert "open to the network" not in proxy.nginx(TWO)


def test_a_part_for_a_configuration_folder_has_no_frame() -> None:
    """Another file's `http` block includes it."""
    text = proxy.nginx(TWO, is_whole=False)

    assert not {"events {", "http {"} & set(directives(text))
    assert directives(text)[0] == "upstream vllm {"


@pytest.mark.parametrize(
    "servers", [(), (TWO[0], TWO[0]), (ProxyServer("A", 1), ProxyServer("a", 1)), (ProxyServer("127.0.0.1", 8080),)]
)
def test_an_impossible_proxy_is_rejected(servers: tuple[ProxyServer, ...]) -> None:
    """No server, one twice, the proxy as its own server."""
    with pytest.raises(InputError):
        proxy.nginx(servers)


def test_the_proxy_needs_its_own_port() -> None:
    """Up to the last port."""
    assert proxy.nginx(TWO, listen=ProxyServer("127.0.0.1", 65535))
    with pytest.raises(InputError):
        proxy.nginx(TWO, listen=TWO[0])


def test_defaults_of_the_proxy() -> None:
    """Port 8080 on this host, one hour of silence, 64 MiB per request, no retries."""
    found = directives(proxy.nginx(TWO))

    assert {"listen 127.0.0.1:8080;", "proxy_read_timeout 3600s;", "client_max_body_size 64m;"} <= set(found)
    assert found.count("proxy_next_upstream error timeout;") == 1
    assert "proxy_next_upstream error timeout non_idempotent;" in directives(proxy.nginx(TWO, retries_posts=True))
    assert found[:2] == ["worker_processes auto;", "worker_rlimit_nofile 16384;"]
    assert directives(proxy.nginx(TWO, is_whole=False))[0] == "upstream vllm {"


@pytest.mark.parametrize(
    ("servers", "listen", "said", "unsaid"),
    [
        (TWO, "127.0.0.1", "# 2 servers of one model behind 127.0.0.1:8080.", "looked up once"),
        (TWO[:1], "::1", "# 1 server of one model behind [::1]:8080.", "open to the network"),
        ((*TWO, ProxyServer("gpu-a", 8000)), "localhost", "Names are looked up once", "open to the network"),
        (TWO, "10.0.0.1", "This port is open to the network", "looked up once"),
    ],
)  # fmt: skip
def test_the_cost_of_an_option_is_in_the_file(
    servers: tuple[ProxyServer, ...], listen: str, said: str, unsaid: str
) -> None:
    """Only of chosen options; no line is wider than 102 characters."""
    text = proxy.nginx(servers, listen=ProxyServer(listen, 8080))
    told = " ".join(text.replace("\n#", "\n").split())

    assert " ".join(said.strip("# ").split()) in told
    assert unsaid not in told
    assert 90 < max(len(line.strip()) for line in text.splitlines()) <= 102
    assert ("max_fails=1" in text) is (len(servers) > 1)


def test_a_name_has_a_length() -> None:
    """As the DNS has it: 253 characters, 63 of each part."""
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])

    assert ProxyServer(longest, 1).is_name
    for host in ("a" * 64, f"{longest}d"):
        with pytest.raises(InputError):
            ProxyServer(host, 1)

"""The answer of the page that checks a command: one card with the corrected command, each issue once."""

from __future__ import annotations

import json
import re
from html import unescape
from urllib.parse import parse_qsl

from vllm_runbooks.site import browser

_BAD = "vllm serve Qwen/Qwen3-8B --tensor-paralel-size 2 --host 0.0.0.0\n"


def sections(text: str) -> dict[str, str]:
    """The parts of the answer by title."""
    return dict(json.loads(browser.ask('{"do": "lint"}', [("", text.encode())]))["sections"])


def words(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


def test_the_card_has_the_corrected_command_to_copy() -> None:
    """With the number of fixes, and without asking whether that was meant."""
    card = sections(_BAD)["Answer"]
    command = re.search(r'<pre data-copy="command".*?</pre>', card, re.DOTALL)
    assert command is not None
    assert words(command[0]).strip() == "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --host 0.0.0.0"
    assert "Fixed 1 issue, 1 warning remaining." in card
    assert "Did you mean" not in card
    assert "font-weight:600" in command[0]


def test_each_issue_is_shown_once() -> None:
    """Issues of the card are in no other part; further issues are listed below it."""
    found = sections(_BAD)
    assert list(found) == ["Answer", "Difference", "What is started"]
    assert words("".join(found.values())).count("without an API key") == 1
    more = sections(_BAD.replace("serve", "serve --aaa --bbb --ccc"))
    listed = re.findall(r"rules/([\w.-]+)\.html", more["Other findings"])
    assert "Found" not in more["Other findings"]
    assert len(listed) == len(re.findall(r"rules/([\w.-]+)\.html", more["Answer"])) - 1 == 2


def test_a_quote_underlines_its_subject() -> None:
    """Also where the line is indented, and where its beginning is cut."""
    for text in (_BAD, f"if true; then\n    {_BAD}fi\n", f"vllm serve m --served-model-name {'x' * 300} {_BAD[24:]}"):
        marked = [words(part) for part in re.findall(r"<u style=.*?</u>", sections(text)["Answer"])]
        assert "--tensor-paralel-size" in marked, text


def test_a_long_corrected_text_is_below_the_card() -> None:
    """The card has the number of fixes."""
    found = sections("# a comment\n" * 20 + _BAD)
    assert "data-copy" not in found["Answer"]
    assert "Fixed 1 issue, 1 warning remaining." in found["Answer"]
    assert list(found)[1] == "Corrected text"
    assert "--tensor-parallel-size" in found["Corrected text"]
    assert "safety.open-port" not in found["Corrected text"]


def test_a_fix_names_the_errors_that_it_uncovers() -> None:
    """Without them, the next launch would report them; errors that the card has are not repeated."""
    card = words(sections(_BAD.replace("2", "3"))["Answer"])
    assert "The fix uncovers: Qwen/Qwen3-8B has 32 attention heads, not divisible by tensor parallel size 3" in card
    assert "The fix uncovers" not in words(sections(_BAD)["Answer"])


def test_the_page_of_the_planner_finds_the_gpus_itself() -> None:
    """A model that does not fit leads to the same page with the question for the fewest GPUs."""
    asked = {"do": "plan", "model": "deepseek-ai/DeepSeek-V3.1", "gpus": "4xRTX4090", "utilization": "0.9"}
    card = dict(json.loads(browser.ask(json.dumps(asked)))["sections"])["Answer"]
    link = re.search(r'<a href="#(.*?)">See how many GPUs it needs</a>', card)
    assert link is not None
    question = dict(parse_qsl(unescape(link[1])))
    assert question == {"model": asked["model"], "gpus": "RTX4090", "utilization": "0.9", "find": "gpus"}
    assert "vllm-runbooks" not in card

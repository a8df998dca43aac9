"""Tokens that their issuer's prefix identifies, as a table.

The prefixes are those that the issuers document and gitleaks and detect-secrets list. Each row has an example of the
rest; the tests read it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vllm_runbooks.core.redaction.parts import LazyPattern

APART = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Before a token: no letter or digit, except that of an escape (`\\n`) in quoted text."""
_MIXED = r"(?=[A-Za-z0-9_.+/=-]{0,60}?\d)"
"""Lookahead for a digit after a short prefix: a token has one, unlike a word."""
_SAMPLE = "Zk9Qw4x8Rt2Lm6Vb1"


class Rest(NamedTuple):
    """What follows a prefix."""

    pattern: str
    example: str


def _rest(sign: str, least: int, sample: str = _SAMPLE) -> Rest:
    return Rest(f"{_MIXED}{sign}{{{least},2000}}", (sample * 20)[:least])


def _letters(least: int) -> Rest:
    return _rest("[A-Za-z0-9]", least)


def _word(least: int) -> Rest:
    return _rest("[A-Za-z0-9_-]", least)


def _random(least: int, sign: str = "[A-Za-z0-9_-]") -> Rest:
    """A digit or a capital is enough after a prefix that no word has: 1 of 30 to 1,000 such tokens has no digit."""
    return Rest(rf"(?=[a-z_.-]{{0,60}}[A-Z\d]){sign}{{{least},2000}}", ("zkQwxRtLmVb" * 20)[:least])


def _dotted(least: int) -> Rest:
    return _rest("[A-Za-z0-9_.-]", least)


def _base64(least: int) -> Rest:
    return _rest("[A-Za-z0-9+/=_-]", least)


def _hex(least: int) -> Rest:
    return _rest("[0-9a-fA-F]", least, "0a1b2c3d4e5f")


def _capitals(least: int) -> Rest:
    return _rest("[A-Z0-9-]", least, _SAMPLE.upper())


_UUID = Rest(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9")
ISSUERS: tuple[tuple[str, str, Rest], ...] = (
    ("huggingface", "hf_ api_org_", Rest(
        r"(?=[a-z0-9]{0,200}[A-Z]|[A-Za-z]{0,200}\d|[a-z]{20})[A-Za-z0-9]{16,200}", _SAMPLE,
    )),
    ("nvidia", "nvapi-", _random(16)),
    ("github", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", _random(16)),
    ("gitlab", "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- glagent- glimt- gloas- glffct- GR1348941",
     _random(16, "[A-Za-z0-9_.-]")),
    ("aws", "AKIA ASIA ABIA ACCA", Rest("[0-9A-Z]{16}(?![A-Za-z0-9])", _SAMPLE.upper()[:16])),
    ("aws", "ABSK bedrock-api-key-", Rest("[A-Za-z0-9+/]{60,2000}={0,2}", (_SAMPLE * 4)[:60])),
    ("google", "AIza", _random(30)), ("google", "ya29. GOCSPX-", _random(20)),
    ("slack", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xoxe.xoxb- xoxe.xoxp-", _rest("[A-Za-z0-9-]", 10)),
    ("anthropic", "sk-ant-", _random(16)), ("openai", "sk-proj- sk-svcacct- sk-admin- sk-or-v1- sk-None-", _random(16)),
    ("modelscope", "ms-", _UUID), ("wandb", "wandb_v1_", _random(20)), ("docker", "dckr_pat_ dckr_oat_", _random(16)),
    # Its first part ends where another begins: none is read from every beginning in it.
    ("jwt", "eyJ", Rest(
        r"(?=[A-Za-z0-9_-]{8})[A-Za-z0-9]{0,4000}+(?:[_-](?!eyJ)[A-Za-z0-9]{0,4000}+){0,400}+"
        r"\.[A-Za-z0-9_-]{8,4000}+\.[A-Za-z0-9_-]{0,2000}", f"hbGciOi{_SAMPLE}.{_SAMPLE}.{_SAMPLE}",
    )),
    ("jwt", "ops_eyJ ZXlK", _base64(40)), ("grafana", "eyJrIjoi", _base64(60)),
    ("token", "gsk_ npm_ xai- pplx-", Rest(
        rf"(?:{_MIXED}[A-Za-z0-9_-]{{20,2000}}|[A-Za-z0-9]{{36,2000}})", "zkQwxRtLmVb" * 4,
    )),
    ("token", "r8_ rpa_ fw_ tvly- lsv2_pt_ lsv2_sk_ tgp_v1_ hvs. csk- jina_ pa-", _word(20)),
    ("token", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_", _word(20)),
    ("token", "pypi-AgE", _random(30)), ("token", "SG.", Rest(
        r"[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,80}", f"{_SAMPLE}.{_SAMPLE}",
    )),
    ("token", "AGE-SECRET-KEY-1", _capitals(40)), ("token", "A3- API-", _capitals(26)),
    ("token", "NRAK- NRII- NRRA- NRJS-", _letters(18)),
    ("token", "dapi dose pul-", _hex(32)),
    ("token", "dop_v1_ doo_v1_ dor_v1_ rubygems_ sntryu_ s-s4t2ud- s-s4t2af- sqp_ squ_ sqa_ sbp_",
     _rest("[0-9a-f-]", 40, "0a1b2c3d4e5f")),
    ("token", "shpat_ shpca_ shppa_ shpss_ shippo_live_ shippo_test_ sgp_ PMAK- FLWSECK- FLWSECK_TEST-",
     _rest("[0-9A-Fa-f_-]", 32, "0a1b2c3d4e5f")),
    ("token", "v1.0-", Rest("[0-9a-f]{24}-[0-9a-f]{140,160}", "0a1b2c3d4e5f" * 2 + "-" + "0a1b2c3d4e5f" * 12)),
    ("token", "p8e- pnu_ pnb_ lin_api_ lin_oauth_ ico- rdme_ CLOJARS_ sm_aat_ sm_pat_ sm_sat_ aio_ rnd_", _letters(16)),
    ("token", "AKCp cmVmd EZAK EZTK EAAA EAAC EAAM HRKU-AA AQVN YCAJE ATATT3 ATCTT3 secret_ ntn_", _word(34)),
    ("token", "dp.pt. dp.st. dp.ct. dp.sa. duffel_live_ duffel_test_ fo1_ sha256~ fio-u- tk-us- tk-eu-", _word(40)),
    ("token", "tfp_ figd_", _word(40)),
    ("token", "pscale_tkn_ pscale_oauth_ pscale_pw_ dt0c01. dt0s01. hvb. hvr. sl. sk.eyJ tk.eyJ t1.", _dotted(43)),
    ("token", "sq0atp- sq0csp- dnkey-", _word(22)), ("token", "pat. sat.", Rest(
        r"[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}", f"{_SAMPLE}Zk9Qw.{_SAMPLE}Zk9Qw4x.{_SAMPLE}Zk9",
    )),
    ("token", "xkeysib- xsmtpsib- fm1r_ fm1a_ fm2_ glc_ glsa_ sntrys_", _base64(32)),
    ("token", "bce-v3/ALTAK-", _rest("[A-Za-z0-9/]", 40)), ("token", "access-sandbox- access-production-", _UUID),
)  # fmt: skip
"""Kind, prefixes, and what follows one."""
ISSUED = LazyPattern(
    f"{APART}(?:"
    + "|".join(
        f"(?P<row{number}>(?:{'|'.join(map(re.escape, prefixes.split()))}){rest.pattern})"
        for number, (_, prefixes, rest) in enumerate(ISSUERS)
    )
    + ")",
    re.ASCII,
)
TRIGGERS = tuple(prefix.lower() for _, prefixes, _ in ISSUERS for prefix in prefixes.split())


def kind_of(match: re.Match[str]) -> str:
    """Kind of a token that `ISSUED` matched."""
    return ISSUERS[int((match.lastgroup or "row0").removeprefix("row"))][0]

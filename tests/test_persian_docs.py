"""The Persian pages next to the English ones: the same commands, the same sections, Persian comments."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PERSIAN_PAGES = [ROOT / "README.fa.md", *sorted((DOCS / "fa").glob("*.md"))]


def twin_of(page: Path) -> Path:
    """The English page."""
    return ROOT / "README.md" if page.parent == ROOT else DOCS / page.name


def sections_of(page: Path) -> list[str]:
    """The levels of the headings outside of code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(r"^(#+) ", text, flags=re.M)


def commands_of(page: Path) -> list[list[str]]:
    """Lines of each fenced block, without comments and without the language of the block."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [[re.sub(r"(?:^|\s+)#\s.*", "", line).rstrip() for line in block.splitlines()] for block in blocks]


@pytest.mark.parametrize("page", PERSIAN_PAGES, ids=lambda page: page.stem)
def test_a_persian_page_shows_the_commands_of_its_english_twin(page):
    assert commands_of(page) == commands_of(twin_of(page))


def inline_code_of(page: Path) -> set[str]:
    """Names, flags and values between backticks, outside of fenced blocks and the targets of links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return set(re.findall(r"`([^`]+)`", re.sub(r"\]\([^)]*\)", "]", text)))


@pytest.mark.parametrize("page", PERSIAN_PAGES, ids=lambda page: page.stem)
def test_a_persian_page_names_every_option_of_its_english_twin(page):
    assert inline_code_of(twin_of(page)) - inline_code_of(page) == set()


@pytest.mark.parametrize("page", PERSIAN_PAGES, ids=lambda page: page.stem)
def test_comments_in_the_code_of_a_persian_page_are_persian(page):
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    comments = [comment for block in blocks for comment in re.findall(r"(?:^|\s)# (.*)", block, flags=re.M)]
    assert [comment for comment in comments if not re.search("[\u0600-\u06ff]", comment)] == []


@pytest.mark.parametrize("page", PERSIAN_PAGES, ids=lambda page: page.stem)
def test_every_link_of_a_persian_page_leads_to_a_page(page):
    links = re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).is_file()] == []


@pytest.mark.parametrize("page", PERSIAN_PAGES, ids=lambda page: page.stem)
def test_a_persian_page_has_the_sections_of_its_twin(page):
    assert sections_of(page) == sections_of(twin_of(page))


def test_the_pages_that_were_promised_exist():
    promised = {"gpu", "quickstart", "serving", "studio", "text", "training", "troubleshooting"}
    assert promised <= {page.stem for page in PERSIAN_PAGES}

"""The Persian pages next to the English ones."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PERSIAN_PAGES = sorted((DOCS / "fa").glob("*.md"))


def commands_of(page: Path) -> list[list[str]]:
    """Lines of each fenced block, without comments and without the language of the block."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [[re.sub(r"(?:^|\s+)#\s.*", "", line).rstrip() for line in block.splitlines()] for block in blocks]


@pytest.mark.parametrize("page", PERSIAN_PAGES, ids=lambda page: page.stem)
def test_a_persian_page_shows_the_commands_of_its_english_twin(page):
    assert commands_of(page) == commands_of(DOCS / page.name)


@pytest.mark.parametrize("page", PERSIAN_PAGES, ids=lambda page: page.stem)
def test_every_link_of_a_persian_page_leads_to_a_page(page):
    links = re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).is_file()] == []


def test_the_pages_that_were_promised_exist():
    assert {"gpu", "quickstart", "serving", "studio", "training", "troubleshooting"} <= {
        page.stem for page in PERSIAN_PAGES
    }

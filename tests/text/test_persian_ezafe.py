"""Places without ezafe: every rule by its examples."""

import pytest

from myxtts.text.g2p import phonemize
from myxtts.text.persian_ezafe import RULES

EXAMPLES = [(rule.name, text, spoken) for rule in RULES for text, spoken in rule.examples]


def read(text: str) -> str:
    return phonemize([text], "fa")[0].replace("ˈ", "")


@pytest.mark.parametrize(("name", "text", "spoken"), EXAMPLES, ids=[f"{name}-{text}" for name, text, _ in EXAMPLES])
def test_the_examples_of_a_rule_are_read_so(name, text, spoken):
    assert read(text) == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("او ابراز علاقه کرد", "u ebrɑze ælɑqe kærd"),
        ("مورد استفاده قرار گرفت", "morede estefɑde qærɑr ɡereft"),
        ("ته کوچه", "tæhe kutʃe"),
        ("یک مرد بیست ساله", "jek mærde bist sɑle"),
        ("هوای سرد زمستان", "hævɑje særde zemestɑn"),
        ("با نتیجهٔ سه بر یک", "bɑ nætidʒeje se bær jek"),
        ("ساعت هفتِ صبح", "sɑʔæte hæfte sobh"),
    ],
)
def test_other_places_keep_their_ezafe(text, spoken):
    assert read(text) == spoken

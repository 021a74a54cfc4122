"""What a voice says about its licence: a name in its description, the whole text beside it."""

from pathlib import Path

import pytest

from myxtts.data.corpora import bundled_corpus
from myxtts.data.manifest import read_notices
from myxtts.synthesis.voice_folder import bundled_voice, licence_file, read_description
from myxtts.training.voices import licence_name

PACKAGE = "Files: *\nLicense: CC-BY-SA-3.0\n\nFiles: ru-*\nLicense: CC-BY-3.0\n\nLicense: CC-BY-SA-3.0\n THE WORK ...\n"


@pytest.mark.parametrize(
    ("licence", "attribution", "name"),
    [
        ("", "", ""),
        ("  MIT\n", "", "MIT"),
        ("MIT License\n\nPermission is hereby granted ...", "", "MIT License"),
        (PACKAGE, "`en`: Allison Smith, CC-BY-SA-3.0", "CC-BY-SA-3.0"),
        (PACKAGE, "`ru`: Maxim, CC-BY-3.0.", "CC-BY-3.0"),
        (PACKAGE, "", "CC-BY-SA-3.0, CC-BY-3.0"),
        ("a" * 1000 + "\nmore", "", "a" * 200),
    ],
)
def test_a_licence_is_known_by_its_name(licence, attribution, name):
    assert licence_name(licence, attribution) == name


def test_the_bundled_voice_has_the_terms_of_its_corpus_in_short_and_in_full():
    corpus: Path = bundled_corpus()
    licence, attribution = read_notices(corpus)
    description = read_description(bundled_voice())
    assert description.licence == licence_name(licence, attribution) == "CC-BY-SA-3.0"
    assert description.attribution == attribution
    assert licence_file(bundled_voice()).read_text(encoding="utf-8") == licence

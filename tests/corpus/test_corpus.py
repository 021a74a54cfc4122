"""The front of the package: both splits with the state of their files, read once."""

import os

import pytest

from myxtts.config.config import DataConfig
from myxtts.corpus import layouts
from myxtts.corpus.corpus import SAME_ID_PREFIX, read_corpus
from myxtts.corpus.folder_index import FolderIndex
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import CorpusError
from tests.corpus.tiny_corpus import make_corpus, write_metadata


def ids(corpus, is_validation):
    return [one.id for one, held in zip(corpus.utterances, corpus.is_validation, strict=True) if held == is_validation]


def test_both_splits_come_with_the_state_of_their_files(tmp_path):
    lines = make_corpus(tmp_path, 4)
    write_metadata(tmp_path, {"clip002": lines["clip002"]}, "metadata_eval.csv")
    corpus = read_corpus(DataConfig(), tmp_path)
    assert (ids(corpus, False), ids(corpus, True)) == (["clip000", "clip001", "clip003"], ["clip002"])
    states = [os.stat(one.path) for one in corpus.utterances]
    assert corpus.sizes.tolist() == [state.st_size for state in states]
    assert corpus.mtimes_ns.tolist() == [state.st_mtime_ns for state in states]


def test_terms_of_the_corpus_are_part_of_it(tmp_path):
    make_corpus(tmp_path, 1)
    (tmp_path / "LICENSE").write_text("CC0")
    (tmp_path / "credits.md").write_text("By Anna.")
    corpus = read_corpus(DataConfig(train_data=str(tmp_path)))
    assert (corpus.license, corpus.attribution) == ("CC0", "By Anna.")


def test_the_folder_and_its_one_list_are_read_once(tmp_path, monkeypatch):
    make_corpus(tmp_path, 20)
    calls = []
    walk, read = FolderIndex.walk, layouts.read_metadata
    monkeypatch.setattr(FolderIndex, "walk", lambda root: calls.append("walk") or walk(root))
    monkeypatch.setattr(layouts, "read_metadata", lambda *arguments: calls.append("metadata") or read(*arguments))
    corpus = read_corpus(DataConfig(validation_share=0.4), tmp_path)
    assert len(corpus.utterances) == 20
    assert 0 < corpus.is_validation.sum() < 20
    assert calls == ["walk", "metadata"]


def test_the_same_id_in_a_validation_folder_is_another_clip(tmp_path):
    make_corpus(tmp_path / "train", 2)
    make_corpus(tmp_path / "other", 3)
    corpus = read_corpus(DataConfig(val_data=str(tmp_path / "other")), tmp_path / "train")
    assert ids(corpus, False) == ["clip000", "clip001"]
    assert ids(corpus, True) == [f"{SAME_ID_PREFIX}clip000", f"{SAME_ID_PREFIX}clip001", "clip002"]


def test_a_clip_that_two_lists_name_is_only_validated_on(tmp_path):
    header = "path\tsentence\n"
    (tmp_path / "clips").mkdir()
    for name in ("a.mp3", "b.mp3"):
        (tmp_path / "clips" / name).touch()
    (tmp_path / "train.tsv").write_text(f"{header}a.mp3\tOne\nb.mp3\tTwo\n")
    (tmp_path / "dev.tsv").write_text(f"{header}b.mp3\tTwo\n")
    corpus = read_corpus(DataConfig(), tmp_path)
    assert (ids(corpus, False), ids(corpus, True)) == (["a"], ["b"])
    assert [(one.id, one.reason) for one in corpus.rejections] == [("b", "duplicate id")]


def test_without_a_folder_it_is_the_bundled_corpus():
    corpus = read_corpus(DataConfig())
    assert corpus.folder == bundled_corpus()
    assert "CC-BY-SA-3.0" in corpus.license


@pytest.mark.parametrize("is_rejected", [False, True])
def test_names_that_the_locale_cannot_find_are_an_error(tmp_path, monkeypatch, is_rejected):
    """Recordings that are not ASCII look missing where file names are read as ASCII."""
    make_corpus(tmp_path, 1)
    write_metadata(tmp_path, {"سلام": "one"} | ({"clip000": "two"} if is_rejected else {}))
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    with pytest.raises(CorpusError, match="PYTHONUTF8=1"):
        read_corpus(DataConfig(), tmp_path)

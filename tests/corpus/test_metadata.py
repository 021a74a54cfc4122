"""Metadata files as people have them: every delimiter, header, encoding and line end gives the same clips."""

import itertools
import json
import os

import pytest

from myxtts.corpus.corpus import read_manifest, read_splits
from myxtts.corpus.encodings import unmarked_utf16
from myxtts.errors import CorpusError

ENGLISH = {"a": "One, two; three.", "b": 'He said "four", then left.', "c": "Plain"}
PERSIAN = {"a": "سلام دنيا، اين يك متن است", "b": "گربه روي ديوار نشست", "c": "Plain"}
RUSSIAN = {"a": "Привет, мир", "b": "Это наш текст", "c": "Он здесь"}
FRENCH = {"a": "Il était à l'école, déjà", "b": "Ça va «bien»", "c": "Plain"}


def delimited(delimiter, header=None, is_quoted=False):
    def write(texts):
        def cell(text):
            return '"' + text.replace('"', '""') + '"' if is_quoted else text

        rows = [f"{name}.wav{delimiter}{cell(text)}" for name, text in texts.items()]
        return "\n".join([header, *rows] if header else rows)

    return write


def json_lines(audio, text):
    return lambda texts: "\n".join(
        json.dumps({audio: f"wavs/{name}.wav", text: spoken, "duration": 1.5}, ensure_ascii=False)
        for name, spoken in texts.items()
    )


def json_list(texts):
    entries = [{"audio": {"path": f"{name}.wav"}, "sentence": text} for name, text in texts.items()]
    return json.dumps(entries, indent=1)


DIALECTS = {
    "LJSpeech": ("metadata.csv", delimited("|")),
    "pipes with a header": ("metadata.csv", delimited("|", "file|text")),
    "tabs": ("metadata.csv", delimited("\t")),
    "tabs with a header": ("metadata.tsv", delimited("\t", "path\tsentence")),
    "quoted tabs": ("metadata.tsv", delimited("\t", '"path"\t"sentence"', is_quoted=True)),
    "Hugging Face": ("metadata.csv", delimited(",", "file_name,transcription", is_quoted=True)),
    "commas without quotes": ("metadata.csv", delimited(",", "file_name,transcription")),
    "commas without a header": ("metadata.csv", delimited(",")),
    "semicolons": ("metadata.csv", delimited(";", "file_name;text", is_quoted=True)),
    "semicolons without a header": ("metadata.csv", delimited(";", is_quoted=True)),
    "metadata.txt": ("metadata.txt", delimited("|")),
    "a name of its own": ("my clips.csv", delimited(",", "file_name,text", is_quoted=True)),
    "OpenSLR": ("line_index.tsv", delimited("\t")),
    "Hugging Face JSON": ("metadata.jsonl", json_lines("file_name", "transcription")),
    "NeMo": ("manifest.json", json_lines("audio_filepath", "text")),
    "a JSON list": ("metadata.json", json_list),
}
ENCODINGS = {
    "utf-8": (ENGLISH, PERSIAN, RUSSIAN, FRENCH),
    "utf-8-sig": (PERSIAN,),
    "utf-16": (ENGLISH, PERSIAN),
    "utf-16-be": (PERSIAN,),
    "cp1256": (PERSIAN,),
    "cp1251": (RUSSIAN,),
    "cp1252": (FRENCH,),
}
LANGUAGES = {id(ENGLISH): "en", id(PERSIAN): "fa", id(RUSSIAN): "ru", id(FRENCH): "fr"}


def make_folder(folder, name, content, clips="abc"):
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    for clip in clips:
        (folder / "wavs" / f"{clip}.wav").touch()
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def texts_of(manifest):
    return {each.id.rpartition("/")[2]: each.text for each in manifest.utterances}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_encoding_and_line_end_gives_the_same_clips(tmp_path, dialect):
    name, write = DIALECTS[dialect]
    cases = [
        (codec, texts, end)
        for codec, all_texts in ENCODINGS.items()
        for texts in all_texts
        for end in ["\n", "\r\n", "\r"]
    ]
    for number, (codec, texts, end) in enumerate(cases):
        content = write(texts).replace("\n", end) + end
        mark = b"\xfe\xff" if codec == "utf-16-be" else b""
        folder = make_folder(tmp_path / str(number), name, mark + content.encode(codec))
        manifest = read_manifest(folder, LANGUAGES[id(texts)])
        assert texts_of(manifest) == texts, (codec, end)
        assert not manifest.rejected
        is_announced = codec not in ("utf-8", "utf-8-sig") and not content.isascii()
        assert any("was read as" in notice for notice in manifest.notices) or not is_announced


@pytest.mark.parametrize("content", ["a,Well|now\nb,Two\nc,Three\n", "a\tx, y\nb\tz; w, v\nc\tu\n"])
def test_the_delimiter_is_the_one_after_the_names_of_recordings(tmp_path, content):
    assert len(read_manifest(make_folder(tmp_path, "metadata.csv", content)).utterances) == 3


def test_a_quotation_mark_that_is_never_closed_swallows_no_other_clip(tmp_path):
    content = 'file_name,text\na.wav,"open\nb.wav,"two\nlines"\nc.wav,5" nail\n'
    assert texts_of(read_manifest(make_folder(tmp_path, "metadata.csv", content))) == {
        "a": '"open',
        "b": "two lines",
        "c": '5" nail',
    }


def test_a_line_with_more_cells_than_its_header_is_rejected_where_the_text_would_be_cut(tmp_path):
    content = "file_name,text,speaker\na.wav,One, two,x\nb.wav,Three,x\n"
    manifest = read_manifest(make_folder(tmp_path, "metadata.csv", content))
    assert texts_of(manifest) == {"b": "Three"}
    assert [each.reason for each in manifest.rejected] == ["too many columns"]


def test_a_file_column_is_preferred_to_an_id_column(tmp_path):
    content = "id,file_name,text\n1,a.wav,One\n2,b.wav,Two\n"
    assert texts_of(read_manifest(make_folder(tmp_path, "metadata.csv", content))) == {"a": "One", "b": "Two"}


def test_absolute_paths_of_this_and_of_another_machine_are_found_in_the_folder(tmp_path):
    content = f"{tmp_path}/wavs/a.wav|One\n/elsewhere/data/b.wav|Two\nD:\\data\\c.wav|Three\n/etc/passwd|Four\n"
    manifest = read_manifest(make_folder(tmp_path, "metadata.csv", content))
    assert texts_of(manifest) == {"a": "One", "b": "Two", "c": "Three"}
    assert [each.reason for each in manifest.rejected] == ["outside the folder"]


def test_bad_lines_of_json_are_rejected_one_by_one(tmp_path):
    lines = [
        '{"file_name": "a.wav", "text": "One"}',
        '{"file_name": "b.wav"}',
        '{"text": 5}',
        "[" * 5000,
        "nonsense",
        "[1]",
    ]
    manifest = read_manifest(make_folder(tmp_path, "metadata.jsonl", "\n".join(lines)))
    assert texts_of(manifest) == {"a": "One"}
    assert len(manifest.rejected) == 5


@pytest.mark.parametrize(
    ("column", "language"), [("fa", "fa"), ("Persian", "fa"), ("fa_IR", "fa"), ("", "en"), ("English", "en")]
)
def test_the_language_column_takes_names_and_codes(tmp_path, column, language):
    folder = make_folder(tmp_path, "metadata.csv", f"id|text|language\na|Hello|{column}\n")
    assert read_manifest(folder).utterances[0].language == language


def test_an_unknown_language_is_rejected_with_the_nearest_name(tmp_path):
    folder = make_folder(tmp_path, "metadata.csv", "id|text|language\na|Hello|engish\nb|Two|en\n")
    manifest = read_manifest(folder)
    assert [(each.id, each.reason) for each in manifest.rejected] == [("a", "unknown language")]
    assert "Did you mean en (English)?" in manifest.rejected[0].detail


@pytest.mark.parametrize(("texts", "flag"), [(PERSIAN, "--language fa"), (RUSSIAN, "--language ru")])
def test_a_corpus_in_another_script_is_an_error_with_the_flag_that_helps(tmp_path, texts, flag):
    content = delimited("|")({name: text for name, text in texts.items() if not text.isascii()})
    with pytest.raises(CorpusError, match=rf"wrong script \d \(.* letters, but the language is 'en'.*{flag}"):
        read_splits(make_folder(tmp_path, "metadata.csv", content))


def test_the_language_column_is_named_where_it_is_wrong(tmp_path):
    folder = make_folder(tmp_path, "metadata.csv", f"id|text|language\na|{PERSIAN['a']}|en\nb|Two|en\n")
    assert (
        "Correct the language column: fa (Persian), ar (Arabic) or ur (Urdu)"
        in read_manifest(folder).rejected[0].detail
    )


@pytest.mark.parametrize("is_outside", [False, True])
def test_metadata_may_be_a_link(tmp_path, is_outside):
    folder = make_folder(tmp_path / "corpus", "list.txt", "a|One\n")
    target = tmp_path / "elsewhere.csv" if is_outside else folder / "list.txt"
    target.write_text("a|One\n")
    os.symlink(target, folder / "metadata.csv")
    assert texts_of(read_manifest(folder)) == {"a": "One"}


@pytest.mark.timeout(60)
def test_a_pipe_as_metadata_is_an_error_without_waiting(tmp_path):
    folder = make_folder(tmp_path, "unused.txt", "")
    os.mkfifo(folder / "metadata.csv")
    with pytest.raises(CorpusError, match="it is a pipe"):
        read_manifest(folder)


def test_metadata_beyond_the_limit_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.corpus.metadata.LARGEST_METADATA_BYTES", 3)
    with pytest.raises(CorpusError, match="larger than"):
        read_manifest(make_folder(tmp_path, "metadata.csv", "a|One\n"))


def test_when_nothing_fits_the_error_shows_the_lines_as_read_and_what_was_expected(tmp_path):
    folder = make_folder(tmp_path, "metadata.csv", "first line\x1b[31m\nsecond line\n\nthird\nfourth\n")
    with pytest.raises(CorpusError) as caught:
        read_manifest(folder)
    message = str(caught.value)
    assert "The file begins:\n  first line\\x1b[31m\n  second line\n  third\n" in message
    assert "Expected: metadata.csv with `id|text` lines" in message
    assert "fourth" not in message


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_list_is_called_empty(tmp_path, content):
    with pytest.raises(CorpusError, match=r"\(read as LJSpeech\)\.\nmetadata\.csv is empty\.\nExpected: "):
        read_manifest(make_folder(tmp_path, "metadata.csv", content))


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("texts", [ENGLISH, PERSIAN, RUSSIAN, FRENCH])
def test_utf16_without_a_byte_order_mark_is_recognized_and_announced(tmp_path, codec, texts):
    folder = make_folder(tmp_path, "metadata.csv", delimited("|")(texts).encode(codec))
    manifest = read_manifest(folder, LANGUAGES[id(texts)])
    assert texts_of(manifest) == texts
    assert [notice.partition(",")[0].rstrip(".") for notice in manifest.notices] == [
        f"metadata.csv is not UTF-8 and was read as {codec.upper()}"
        + (". If that is wrong" if "".join(texts.values()).isascii() else "")
    ]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_text_files_in_utf16_without_a_byte_order_mark_are_recognized_and_announced(tmp_path, codec):
    texts = {"a": "سلام دنیا، این یک متن است", "b": "Two\u200cwords"}
    for name, text in texts.items():
        (tmp_path / f"{name}.wav").touch()
        (tmp_path / f"{name}.txt").write_bytes(f"{text}\n".encode(codec))
    manifest = read_manifest(tmp_path, "fa")
    assert texts_of(manifest) == texts
    assert f"2 .txt files are not UTF-8 and were read as {codec.upper()}" in manifest.notices[0]


@pytest.mark.parametrize(
    "content", [b"a|One\0two\nb|Three\n", b"wxyzwxyz\0wxy", b"\0" * 64, bytes(range(256)) * 4, b"", b"\0"]
)
def test_single_nul_bytes_are_not_utf16(content):
    assert unmarked_utf16(content) is None


def test_bytes_that_no_encoding_explains_are_rejected_not_guessed(tmp_path):
    for number, codec in enumerate(("shift_jis", "gb18030", "koi8-r")):
        text = "日本語のテキスト" if codec != "koi8-r" else "привет мир"
        folder = make_folder(tmp_path / str(number), "metadata.csv", f"a|{text}\nb|Plain\n".encode(codec))
        manifest = read_manifest(folder)
        assert texts_of(manifest) == {"b": "Plain"}
        assert [each.reason for each in manifest.rejected] == ["invalid UTF-8"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["data/train-00000.parquet"], "Parquet"),
        (["a.wav", "sub/b.flac"], "2 recordings such as .*, but no texts"),
        (["one.csv", "two.csv"], "several lists: one.csv, two.csv"),
        (
            ["test/metadata.csv", "test/a.wav", "train/metadata.csv", "train/b.wav"],
            r"subfolders: train/metadata\.csv, test/metadata\.csv\. Use such a folder: --train-data \S+/train ",
        ),
        (["notes.md"], "No corpus was recognized"),
    ],
)
def test_a_folder_that_is_no_corpus_is_described_with_what_to_do(tmp_path, files, message):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(CorpusError, match=message):
        read_manifest(tmp_path)


def test_errors_of_common_voice_fit_common_voice(tmp_path):
    (tmp_path / "clips").mkdir()
    (tmp_path / "train.tsv").write_text("client_id\tpath\tsentence\nx\tgone.mp3\tHello\n")
    with pytest.raises(CorpusError, match=r"Common Voice.*missing 1") as caught:
        read_manifest(tmp_path)
    assert "columns path and sentence" in str(caught.value)
    assert "id|text" not in str(caught.value)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_an_impossible_folder_name_is_an_error(name):
    with pytest.raises(CorpusError, match="does not exist"):
        read_manifest(name)


def test_lists_of_two_kinds_are_the_split(tmp_path):
    for prefix, (train, held_out) in itertools.product(
        ("",), [("train.csv", "validation.csv"), ("train_manifest.json", "dev_manifest.json")]
    ):
        folder = tmp_path / f"{prefix}{train}"
        write = delimited(",", "file_name,text") if train.endswith("csv") else json_lines("audio_filepath", "text")
        make_folder(folder, train, write({"a": "One"}))
        make_folder(folder, held_out, write({"b": "Two"}))
        assert [texts_of(each) for each in read_splits(folder)] == [{"a": "One"}, {"b": "Two"}]

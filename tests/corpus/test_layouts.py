"""VCTK, LibriTTS and Common Voice folders are recognized."""

import os

import pytest

from myxtts.corpus.corpus import read_manifest


def make_files(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def described(manifest):
    return {each.id: (each.text, each.speaker, each.language) for each in manifest.utterances}


def ids(folder, split):
    return {each.id for each in read_manifest(folder, split=split).utterances}


@pytest.mark.parametrize(
    ("audio_folder", "suffix"), [("wav48", ".wav"), ("wav48_silence_trimmed", "_mic1.flac"), ("wav", ".wav")]
)
def test_vctk(tmp_path, audio_folder, suffix):
    manifest = read_manifest(
        make_files(
            tmp_path,
            {
                "txt/p225/p225_001.txt": "Please call Stella.\n",
                "txt/p226/p226_001.txt": "Ask her.\n",
                "txt/p226/p226_002.txt": "No recording.",
                "txt/p226/p226_003.txt": b"\x81\x8d",
                f"{audio_folder}/p225/p225_001{suffix}": "",
                f"{audio_folder}/p226/p226_001{suffix}": "",
                f"{audio_folder}/p226/p226_001{suffix.replace('mic1', 'mic2')}": "",
            },
        )
    )
    assert manifest.layout == "VCTK"
    assert described(manifest) == {
        "p225_001": ("Please call Stella.", "p225", "en"),
        "p226_001": ("Ask her.", "p226", "en"),
    }
    assert manifest.utterances[1].path.name == f"p226_001{suffix}"
    assert {each.id: each.reason for each in manifest.rejected} == {"p226_002": "missing", "p226_003": "invalid UTF-8"}


LIBRITTS = {
    "train-clean-100/19/198/19_198_000000_000000.normalized.txt": "Doctor Who.",
    "train-clean-100/19/198/19_198_000000_000000.original.txt": "Dr. Who.",
    "train-clean-100/19/198/19_198_000000_000000.wav": "",
    "dev-clean/84/121/84_121_000001_000000.normalized.txt": "Held out.",
    "dev-clean/84/121/84_121_000001_000000.wav": "",
}


def test_libritts(tmp_path):
    manifest = read_manifest(make_files(tmp_path, LIBRITTS))
    assert manifest.layout == "LibriTTS"
    assert described(manifest) == {
        "19_198_000000_000000": ("Doctor Who.", "19", "en"),
        "84_121_000001_000000": ("Held out.", "84", "en"),
    }


def test_libritts_development_sets_are_the_validation_set(tmp_path):
    folder = make_files(tmp_path, LIBRITTS)
    assert ids(folder, "train") == {"19_198_000000_000000"}
    assert ids(folder, "validation") == {"84_121_000001_000000"}


COMMON_VOICE_HEADER = "client_id\tpath\tsentence\tup_votes\tlocale\n"
COMMON_VOICE = {
    "validated.tsv": COMMON_VOICE_HEADER + "x1\tcv_fa_1.mp3\tسلام\t2\tfa\ny2\tcv_fa_2.mp3\tخوبی؟\t2\tfa\n",
    "clips/cv_fa_1.mp3": "",
    "clips/cv_fa_2.mp3": "",
}


def test_common_voice(tmp_path):
    manifest = read_manifest(make_files(tmp_path, COMMON_VOICE))
    assert manifest.layout == "Common Voice"
    assert described(manifest) == {"cv_fa_1": ("سلام", "x1", "fa"), "cv_fa_2": ("خوبی؟", "y2", "fa")}
    assert manifest.utterances[0].path == tmp_path.resolve() / "clips" / "cv_fa_1.mp3"


def test_common_voice_has_its_own_split(tmp_path):
    files = COMMON_VOICE | {
        "train.tsv": COMMON_VOICE_HEADER + "x1\tcv_fa_1.mp3\tسلام\t2\tfa\n",
        "dev.tsv": COMMON_VOICE_HEADER + "y2\tcv_fa_2.mp3\tخوبی؟\t2\tfa\n",
    }
    folder = make_files(tmp_path, files)
    assert (ids(folder, "train"), ids(folder, "validation")) == ({"cv_fa_1"}, {"cv_fa_2"})


def test_common_voice_paths_cannot_leave_the_folder(tmp_path):
    files = COMMON_VOICE | {"validated.tsv": COMMON_VOICE["validated.tsv"] + "z\t../../etc/x.mp3\tبد\t0\tfa\n"}
    manifest = read_manifest(make_files(tmp_path, files))
    assert [each.reason for each in manifest.rejected] == ["outside the folder"]


@pytest.mark.timeout(60)
def test_a_pipe_as_the_text_of_a_clip_is_rejected_without_waiting(tmp_path):
    files = {"txt/p1/p1_001.txt": "One.", "wav48/p1/p1_001.wav": "", "wav48/p1/p1_002.wav": ""}
    folder = make_files(tmp_path, files)
    os.mkfifo(folder / "txt/p1/p1_002.txt")
    manifest = read_manifest(folder)
    assert [each.id for each in manifest.utterances] == ["p1_001"]
    assert "it is a pipe" in manifest.rejected[0].detail


def test_a_recording_without_a_text_file_among_pairs_is_rejected(tmp_path):
    manifest = read_manifest(make_files(tmp_path, {"a.wav": "", "a.txt": "One.", "sub/b.flac": "", "cover.png": ""}))
    assert [each.id for each in manifest.utterances] == ["a"]
    assert [(each.id, each.path, each.reason, each.detail) for each in manifest.rejected] == [
        ("sub/b", "sub/b.flac", "empty text", "no .txt of the same name")
    ]


@pytest.mark.parametrize("stray", ["train.txt", "transcript.txt", "dev.txt"])
def test_a_stray_text_file_does_not_hide_pairs(tmp_path, stray):
    manifest = read_manifest(make_files(tmp_path, {"a.wav": "", "a.txt": "One.", stray: "Recorded in May.\n"}))
    assert described(manifest) == {"a": ("One.", "speaker", "en")}


def test_a_text_file_that_lists_clips_is_read_where_there_are_no_pairs(tmp_path):
    manifest = read_manifest(make_files(tmp_path, {"wavs/a.wav": "", "transcripts.txt": "a|One.\n"}))
    assert described(manifest) == {"a": ("One.", "speaker", "en")}


SUBFOLDERS = {"wavs/anna/a.wav": "", "wavs/ben/b.wav": ""}


def test_subfolders_next_to_metadata_without_speakers_are_one_speaker_and_that_is_announced(tmp_path):
    manifest = read_manifest(make_files(tmp_path, SUBFOLDERS | {"metadata.csv": "anna/a|One.\nben/b|Two.\n"}))
    assert {each.speaker for each in manifest.utterances} == {"speaker"}
    assert "count as one speaker" in manifest.notices[0]
    assert "(anna, ben)" in manifest.notices[0]


@pytest.mark.parametrize(
    "files",
    [
        SUBFOLDERS | {"metadata.csv": "id|text|speaker\nanna/a|One.|anna\nben/b|Two.|ben\n"},
        {"wavs/a.wav": "", "wavs/b.wav": "", "metadata.csv": "a|One.\nb|Two.\n"},
    ],
)
def test_nothing_is_announced_where_speakers_are_named_or_there_are_no_subfolders(tmp_path, files):
    assert read_manifest(make_files(tmp_path, files)).notices == ()

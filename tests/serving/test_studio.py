"""The routes of the studio, as its page calls them."""

import io
import json
import wave
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx2", reason="the extra `test` is not installed")

from fastapi.testclient import TestClient

from myxtts.audio.files import write_audio
from myxtts.corpus.corpus import bundled_corpus
from myxtts.serving.app import create_app
from myxtts.serving.settings import Settings
from myxtts.serving.studio import PAGE_FOLDER, Judges, add_studio
from myxtts.serving.studio_record import Heard
from myxtts.serving.voices import VoicePool
from myxtts.serving.workspace import Workspace
from myxtts.synthesis.voice import Voice
from myxtts.text.tokenizer import FrontEnd, SymbolTable
from tests.serving.test_recorder import RATE, speech
from tests.serving.test_runs import write_launch, write_status
from tests.synthesis.tiny_voice import write_recording, write_voice


@pytest.fixture(scope="session")
def voice_folders(tmp_path_factory):
    """`letters` reads letters and can clone; `sounds` reads the phonemes of our own G2P."""
    folder = tmp_path_factory.mktemp("studio-voices")
    symbols = SymbolTable().extended_with("pbtdkɡfvθðszʃʒhmnŋlɹjwiɪeɛæaɑɔoʊuʌəɚɝˈˌ")
    model = {"num_symbols": len(symbols)}
    front_end = FrontEnd("phonemes", None, "myxtts").to_dict()
    write_voice(folder / "letters", ("anna", "ben"))
    described = _phoneme_voice(folder / "sounds", symbols, front_end, model)
    return {"letters": folder / "letters", "sounds": described}


def _phoneme_voice(folder, symbols, front_end, model):
    from tests.synthesis import tiny_voice

    plain = tiny_voice.describe()
    return write_voice(folder, symbols=symbols.to_list(), front_end=front_end, model=plain.model | model)


@pytest.fixture(scope="session")
def voices(voice_folders):
    return {name: Voice.load(folder, 1) for name, folder in voice_folders.items()}


@pytest.fixture
def workspace(tmp_path, voice_folders):
    (tmp_path / "speakers").mkdir()
    return Workspace(tmp_path, voice_folders)


@pytest.fixture
def client(workspace, voices):
    def hear(samples, rate, text, language):
        return Heard("something else entirely", 0.9)

    settings = Settings(speakers_folder=workspace.speakers_folder)
    app = create_app(VoicePool(voices, workspace.speakers_folder), settings)
    add_studio(app, workspace, Judges(hear))
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def wav(samples, rate=RATE):
    stream = io.BytesIO()
    write_audio(stream, samples, rate, "wav")
    return stream.getvalue()


def lines_of(response):
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def test_the_page_is_served_with_a_strict_policy_and_nothing_from_elsewhere(client):
    response = client.get("/")
    assert response.url.path == "/studio/"
    assert "default-src 'self'" in response.headers["content-security-policy"]
    for path in PAGE_FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
        assert "http://" not in text, path.name
        assert "https://" not in text, path.name
        assert client.get(f"/studio/{path.name}").status_code == 200


def test_every_text_of_the_page_exists_in_both_languages():
    """strings.js is an object of plain strings: the keys of both languages are compared as text."""
    import re

    text = (PAGE_FOLDER / "strings.js").read_text(encoding="utf-8")
    english, persian = text.split("\n  fa: {")
    keys = [set(re.findall(r'[{,\s](\w+): "', part)) for part in (english, persian)]
    assert keys[0] == keys[1]
    used = set()
    for path in PAGE_FOLDER.glob("*.[jh]*"):
        content = path.read_text(encoding="utf-8")
        used |= set(re.findall(r'\bt\("(\w+)"', content)) | set(re.findall(r'data-t(?:-\w+)?="(\w+)"', content))
    assert used <= keys[0], used - keys[0]


@pytest.mark.parametrize(("header", "value"), [("Host", "evil.example"), ("Origin", "https://evil.example")])
def test_requests_of_other_pages_are_refused(client, header, value):
    response = client.post("/studio/api/corpora", json={"name": "a", "language": "en"}, headers={header: value})
    assert response.status_code == 403


def test_speech_comes_with_audio_words_phonemes_and_subtitles(client):
    sentence, other, done = lines_of(
        client.post("/studio/api/speak", json={"text": "Good morning. How are you?", "voice": "sounds", "speed": 1.5})
    )
    assert [word["word"] for word in sentence["words"]] == ["Good", "morning."]
    assert sentence["words"][0]["phonemes"] == "ɡˈʊd"
    assert other["start"] == pytest.approx(sentence["seconds"], abs=1e-3)
    assert len(sentence["audio"]) > 1000
    assert "How are you?" in done["srt"]
    assert json.loads(done["timings"])["words"][0]["word"] == "Good"


def test_words_that_are_spoken_in_another_order_keep_their_phonemes(client):
    sentence, _ = lines_of(client.post("/studio/api/speak", json={"text": "On 4 May 2021.", "voice": "sounds"}))
    assert sentence["written"] == ["On", "4", "May", "2021."]
    assert [(word["word"], word["index"], word["spoken"], word["phonemes"]) for word in sentence["words"]] == [
        ("On", 0, "On", "ɑn"),
        ("May", 2, "May", "mˈeɪ"),
        ("4", 1, "fourth,", "fˈɔɹθ"),
        ("2021.", 3, "twenty twenty-one.", "twˈɛnti twˈɛnti wˈʌn"),
    ]


def test_a_text_without_sound_is_an_error_and_not_a_stream(client):
    response = client.post("/studio/api/speak", json={"text": "…"})
    assert response.status_code == 400
    assert "nothing to say" in response.json()["error"]["message"]


def test_a_fixed_pronunciation_is_saved_and_spoken(client, workspace):
    wish = {"text": "Good morning.", "voice": "sounds"}
    fix = {"voice": "sounds", "language": "en", "word": "Good", "phonemes": "bˈæd"}
    assert client.put("/studio/api/lexicon", json=fix).status_code == 200
    assert lines_of(client.post("/studio/api/speak", json=wish))[0]["words"][0]["phonemes"] == "bˈæd"
    assert "good\tbˈæd" in (workspace.folder / "lexicon-en.tsv").read_text(encoding="utf-8")
    reading = client.get("/studio/api/reading", params={"text": "good 25", "voice": "sounds"}).json()
    assert [each["word"] for each in reading["words"]] == ["good", "twenty", "five"]
    assert reading["words"][0]["is_corrected"]
    assert client.put("/studio/api/lexicon", json=fix | {"phonemes": ""}).status_code == 200
    assert lines_of(client.post("/studio/api/speak", json=wish))[0]["words"][0]["phonemes"] == "ɡˈʊd"


@pytest.mark.parametrize(
    ("word", "phonemes"), [("two words", "bˈæd"), ("good", "xyz☃"), ("good", "ˈˈ"), ("good", "bˈæd!")]
)
def test_a_pronunciation_that_cannot_be_spoken_is_refused(client, word, phonemes):
    fix = {"voice": "sounds", "language": "en", "word": word, "phonemes": phonemes}
    assert client.put("/studio/api/lexicon", json=fix).status_code == 400


def test_a_reference_is_cloned_compared_saved_and_deleted(client, tmp_path, workspace):
    reference = write_recording(tmp_path / "reference.wav").read_bytes()
    answer = client.post("/studio/api/clones", files={"file": ("r.wav", reference)}, data={"voice": "letters"})
    clone = answer.json()
    assert clone["seconds"] == pytest.approx(1.5, abs=0.1)
    spoken = client.post(f"/studio/api/clones/{clone['id']}/speech", json={"text": "good morning " * 20}).json()
    assert -1 <= spoken["similarity"]["value"] <= 1
    assert not spoken["similarity"]["is_independent"]
    assert client.get(f"/studio/api/clones/{clone['id']}/reference").content[:4] == b"RIFF"
    assert client.post(f"/studio/api/clones/{clone['id']}/save", json={"name": "Ruth"}).status_code == 200
    listed = client.get("/studio/api/voices").json()["voices"]
    assert {voice["id"]: voice["cloned"] for voice in listed} == {"letters": ["Ruth"], "sounds": []}
    assert [path.suffix for path in workspace.speakers_folder.iterdir()] == [".json"]  # the vector, not the recording
    lines_of(client.post("/studio/api/speak", json={"text": "good morning", "voice": "letters", "speaker": "Ruth"}))
    assert client.delete("/studio/api/speakers/Ruth").status_code == 200
    assert not list(workspace.speakers_folder.iterdir())


def test_a_voice_of_one_speaker_does_not_clone(client, tmp_path):
    reference = write_recording(tmp_path / "reference.wav").read_bytes()
    answer = client.post("/studio/api/clones", files={"file": ("r.wav", reference)}, data={"voice": "sounds"})
    assert answer.status_code == 400


def test_sentences_are_recorded_checked_kept_and_removed(client, workspace):
    assert client.post("/studio/api/corpora", json={"name": "mine", "language": "en"}).status_code == 200
    state = client.get("/studio/api/corpora/mine").json()
    prompt = state["prompts"][0]
    take = {"files": {"file": ("t.wav", wav(speech()))}, "data": {"prompt": prompt["id"]}}
    assert client.post("/studio/api/corpora/mine/take", **take).json()["problems"] == []
    assert client.post("/studio/api/corpora/mine/take/hear").json()["is_misread"]
    assert not (workspace.corpora_folder / "mine" / "metadata.csv").exists()  # nothing is kept yet
    kept = client.post("/studio/api/corpora/mine/take/keep").json()
    assert kept["progress"]["clips"] == 1
    assert prompt["id"] not in [each["id"] for each in kept["prompts"]]
    heard = client.get(f"/studio/api/corpora/mine/recordings/{prompt['id']}")
    with wave.open(io.BytesIO(heard.content)) as file:
        assert file.getframerate() == RATE
    assert client.post("/studio/api/corpora/mine/take/keep").status_code == 400  # it was kept already
    assert client.delete(f"/studio/api/corpora/mine/recordings/{prompt['id']}").json()["progress"]["clips"] == 0


@pytest.mark.parametrize("content", [b"", b"no audio", wav(np.zeros(RATE * 41, np.float32))])
def test_a_take_that_cannot_be_read_is_refused_without_naming_a_path(client, content):
    client.post("/studio/api/corpora", json={"name": "mine", "language": "en"})
    prompt = client.get("/studio/api/corpora/mine").json()["prompts"][0]["id"]
    answer = client.post("/studio/api/corpora/mine/take", files={"file": ("t.wav", content)}, data={"prompt": prompt})
    assert answer.status_code == 400
    assert "/" not in answer.json()["error"]["message"].replace("audio/", "")


def test_training_starts_as_a_process_of_myxtts_and_runs_of_a_terminal_are_shown(client, workspace, monkeypatch):
    started = []
    monkeypatch.setattr("myxtts.serving.runs.launch", lambda folder, planned: started.append((folder, planned)))
    write_status(workspace.folder / "checkpointsmain", state="finished", step=100)
    body = {"name": "first", "corpus": "bundled", "size": "tiny", "start": "letters", "minutes": 5}
    assert client.post("/studio/api/runs", json=body).json() == {"name": "runs/first"}
    folder, planned = started[0]
    assert folder == workspace.runs_folder / "first"
    assert planned.arguments[:1] == ("train",)
    assert str(workspace.voices["letters"]) in planned.arguments
    listed = client.get("/studio/api/runs").json()["runs"]
    assert [(run["name"], run["state"], run["is_from_terminal"]) for run in listed] == [
        ("checkpointsmain", "finished", True)
    ]
    assert client.get("/studio/api/run", params={"name": "checkpointsmain"}).json()["step"] == 100


@pytest.mark.parametrize("change", [{"name": "../up"}, {"corpus": "/etc"}, {"start": "../../etc"}, {"minutes": -1}])
def test_a_training_that_names_something_unknown_is_refused(client, workspace, change):
    body = {"name": "first", "corpus": "bundled", "minutes": 5} | change
    assert client.post("/studio/api/runs", json=body).status_code == 400
    assert not workspace.runs_folder.exists()


@pytest.mark.parametrize("name", ["..", "../..", "/etc", "speakers", "runs/../../x"])
def test_a_name_is_looked_up_and_never_a_path(client, name):
    for path in ("run", "run/alignment", "run/recording"):
        assert client.get(f"/studio/api/{path}", params={"name": name}).status_code == 400
    answer = client.get(f"/studio/api/corpora/{quote(name, safe='')}/recordings/x")
    assert answer.status_code in (400, 404)


def test_the_recording_of_a_run_is_one_of_its_corpus(client, workspace):
    write_launch(workspace.runs_folder / "first", corpus="bundled")
    found = client.get("/studio/api/run/recording", params={"name": "runs/first"}).json()
    assert len(found["text"].split()) >= 4
    assert client.get("/studio/api/run/recording/audio", params={"name": "runs/first"}).status_code == 200


def test_an_evaluation_is_a_process_and_its_page_may_execute_nothing(client, workspace, monkeypatch):
    started = []
    monkeypatch.setattr("myxtts.serving.studio_train.launch", lambda folder, planned: started.append((folder, planned)))
    assert client.post("/studio/api/evaluations", json={"voice": "letters", "sentences": 3}).json()["name"]
    folder, planned = started[0]
    # The recordings are named: the sentences of a score card have none to compare with.
    assert planned.arguments[:4] == ("evaluate", str(workspace.voices["letters"]), "--data", str(bundled_corpus()))
    write_launch(folder, arguments=planned.arguments, corpus=planned.corpus, process_id=999_999_999)
    (folder / "train.log").write_text("myxtts evaluate: a package is missing.\n")
    entry = client.get("/studio/api/evaluations").json()["evaluations"][0]
    assert (entry["state"], entry["voice"]) == ("failed", "letters")
    assert entry["line"] == "myxtts evaluate: a package is missing."
    (folder / "page.html").write_text("<h1>Evaluation</h1>")
    page = client.get(f"/studio/api/evaluations/{entry['name']}/page")
    assert "sandbox" in page.headers["content-security-policy"]
    assert "script" not in page.headers["content-security-policy"]

"""Settings that the first weights of a run decide: those of its own checkpoints, or of what `init_from` names."""

from __future__ import annotations

import dataclasses
import json

import pytest

from myxtts.audio.mel import MelSpec
from myxtts.cache.prepare import prepare_cache
from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.errors import ConfigError
from myxtts.models.spec import ModelSpec
from myxtts.synthesis.bundled import bundled_voices
from myxtts.synthesis.voice_folder import Defaults, read_description
from myxtts.text.tokenizer import text_symbols_of
from myxtts.training.checkpoint import FORMAT_VERSION
from myxtts.training.starting_config import check_network, make_run_folders, resolve_starting_config
from myxtts.training.trainer import XTTSTrainer
from tests.corpus.tiny_corpus import make_corpus, tiny_config
from tests.synthesis.tiny_voice import write_voice
from tests.training.small_runs import quiet_display, small_config

PERSIAN_MEL = MelSpec(22050, n_fft=1408, win_length=1400, hop_length=352, n_mels=100, f_min=20.0, f_max=10000.0)


def write_state(folder, mel=PERSIAN_MEL, config=None, **dimensions):
    """A checkpoint of a Persian network in letters, without its arrays."""
    model = dataclasses.replace(ModelConfig(size="small"), **dimensions)
    spec = ModelSpec.from_config(model, num_symbols=40, num_languages=1, num_speakers=1, n_mels=mel.n_mels)
    corpus = {
        "mel": mel.to_dict(),
        "model": spec.to_dict(),
        "front_end": {"kind": "graphemes", "lexicon": {}},
        "languages": ["fa"],
    }
    state = {
        "format_version": FORMAT_VERSION,
        "config": config_to_dict(config or XTTSConfig()),
        "corpus": corpus,
    }
    (folder / "step-00000010").mkdir(parents=True)
    (folder / "step-00000010" / "state.json").write_text(json.dumps(state), encoding="utf-8")
    return folder


def settled(run, data=None, model=None, **training):
    return resolve_starting_config(
        XTTSConfig(
            data=DataConfig(**(data or {})),
            model=ModelConfig(**(model or {})),
            training=TrainingConfig(checkpoint_dir=str(run), **training),
        )
    )


def test_without_other_weights_the_defaults_are_settled(tmp_path):
    config = settled(tmp_path)
    assert config.data == DataConfig(language="en")
    assert config.model == ModelConfig(size="tiny")


def test_the_language_of_the_prepared_corpus_wins_over_the_default(tmp_path):
    make_corpus(tmp_path / "corpus", 3)
    prepare_cache(tiny_config(language="de"), tmp_path / "corpus")
    data, lines = {"train_data": str(tmp_path / "corpus")}, []
    config = XTTSConfig(data=DataConfig(**data), training=TrainingConfig(checkpoint_dir=str(tmp_path / "run")))
    assert resolve_starting_config(config, announce=lines.append).data.language == "de"
    assert [line.partition(",")[0] for line in lines] == ["Language: de"]
    assert settled(tmp_path / "run", data | {"language": "en"}).data.language == "en"
    assert settled(tmp_path / "run", data, init_from="kathleen").data.language == "en"


def test_the_bundled_voice_gives_its_mel_symbols_language_and_size(tmp_path):
    voice = read_description(bundled_voices()["kathleen"])
    config = settled(tmp_path, init_from="kathleen")
    assert MelSpec.from_config(config.data, config.data.sample_rate) == voice.mel_spec()
    assert (config.data.text_symbols, [config.data.language]) == (text_symbols_of(voice.front_end), voice.languages)
    assert config.model.size == "tiny"


@pytest.mark.parametrize("language", ["en", "fa"])
def test_a_new_voice_starts_from_the_bundled_one_with_most_speakers(tmp_path, language):
    assert settled(tmp_path, {"language": language}, init_from="bundled").training.init_from == "base"


def test_a_distilled_voice_is_announced_as_a_start_and_refused_as_a_teacher(tmp_path):
    source = write_voice(tmp_path / "voice", defaults=Defaults(steps=2))
    training = TrainingConfig(checkpoint_dir=str(tmp_path / "run"), init_from=str(source))
    lines = []
    resolve_starting_config(XTTSConfig(training=training), announce=lines.append)
    assert any("was distilled to 2 steps" in line for line in lines)
    with pytest.raises(ConfigError, match="distilled to 2 itself"):
        resolve_starting_config(XTTSConfig(training=training, model=ModelConfig(distill_steps=2)))


def test_a_checkpoint_gives_its_mel_symbols_language_and_dimensions(tmp_path):
    source = write_state(tmp_path / "source", decoder_layers=7)
    config = settled(tmp_path / "run", init_from=str(source))
    assert MelSpec.from_config(config.data, config.data.sample_rate) == PERSIAN_MEL
    assert (config.data.text_symbols, config.data.language) == ("graphemes", "fa")
    assert config.data.bandwidth_aware == "always"
    assert config.model == ModelConfig(size="small", decoder_layers=7)


def test_settings_that_agree_and_another_language_are_kept(tmp_path):
    source = write_state(tmp_path / "source")
    data = {"sample_rate": 22050, "text_symbols": "graphemes", "language": "ar"}
    config = settled(tmp_path / "run", data, {"size": "small", "text_heads": 4}, init_from=str(source))
    assert (config.data.language, config.data.hop_length) == ("ar", PERSIAN_MEL.hop_length)
    assert config.model == ModelConfig(size="small", text_heads=4)


@pytest.mark.parametrize(
    ("data", "model", "line"),
    [
        ({"sample_rate": 24000}, {}, r"data\.sample_rate: 24000; .* was trained with 22050"),
        ({"hop_length": 300}, {}, r"data\.hop_length: 300; .* was trained with 352"),
        ({"n_mels": 64}, {}, r"data\.n_mels: 64; .* was trained with 100"),
        ({"text_symbols": "phonemes"}, {}, r"data\.text_symbols: phonemes; .* was trained with graphemes"),
        ({}, {"size": "tiny"}, r"model\.size: tiny; .* is small"),
        ({}, {"decoder_layers": 3}, r"model\.decoder_layers: 3; .* was trained with 10"),
    ],
)
def test_a_setting_that_contradicts_the_source_is_refused_with_both_values(tmp_path, data, model, line):
    source = write_state(tmp_path / "source")
    with pytest.raises(ConfigError, match=rf"Settings contradict --init-from [^\n]*\n  - {line}[^\n]*\nLeave them out"):
        settled(tmp_path / "run", data, model, init_from=str(source))


def test_a_resumed_run_keeps_its_own_settings_whatever_it_started_from(tmp_path):
    own = XTTSConfig(
        data=DataConfig(**PERSIAN_MEL.to_config(), text_symbols="graphemes", language="fa"),
        model=ModelConfig(size="small"),
    )
    run = write_state(tmp_path, config=own)
    for init_from in (None, str(tmp_path / "removed since")):
        config = settled(run, init_from=init_from)
        assert (config.data, config.model) == (own.data, own.model)


def test_a_run_of_an_earlier_version_keeps_its_rate(tmp_path):
    mel = MelSpec(22050, f_max=11025.0)
    before = XTTSConfig(data=DataConfig(n_fft=1024, win_length=1024, hop_length=256, language="en"))
    config = settled(write_state(tmp_path, mel, before))
    assert MelSpec.from_config(config.data, config.data.sample_rate) == mel


def test_a_run_that_starts_again_does_not_follow_the_earlier_one(tmp_path):
    config = XTTSConfig(training=TrainingConfig(checkpoint_dir=str(write_state(tmp_path))))
    assert resolve_starting_config(config, reset_training=True).model.size == "tiny"


def test_a_gap_that_the_convolutions_reach_across_is_refused_in_packed_rows():
    with pytest.raises(
        ConfigError, match=r"data\.gap_frames must be at least 4.* Received: 3\. Set data\.gap_frames: 4"
    ):
        check_network(parse_config({"data": {"gap_frames": 3}}))
    check_network(parse_config({"data": {"gap_frames": 4}}))
    check_network(parse_config({"data": {"gap_frames": 1, "plan": "buckets"}}))


def test_the_reach_is_that_of_the_layers_that_there_are():
    check_network(parse_config({"data": {"gap_frames": 2}, "model": {"decoder_layers": 2}}))
    with pytest.raises(ConfigError, match="at least 2"):
        check_network(parse_config({"data": {"gap_frames": 1}, "model": {"decoder_layers": 2}}))


def test_the_trainer_refuses_such_a_gap_before_it_looks_at_the_corpus(tmp_path):
    with pytest.raises(ConfigError, match="gap_frames"):
        XTTSTrainer(small_config(tmp_path / "no corpus", tmp_path, {"gap_frames": 1}), display=quiet_display()).open()


@pytest.mark.parametrize("model", [{"text_heads": 7}, {"size": "small", "text_channels": 100}])
def test_heads_that_do_not_divide_the_width_are_refused(model):
    with pytest.raises(
        ConfigError, match=r"text_channels must be a multiple of twice model\.text_heads\. Received: \d+ channels and"
    ):
        check_network(parse_config({"model": model}))


def test_the_folders_of_a_run_are_made(tmp_path):
    make_run_folders(
        TrainingConfig(checkpoint_dir=str(tmp_path / "a" / "run"), tensorboard_log_dir=str(tmp_path / "boards"))
    )
    assert (tmp_path / "a" / "run").is_dir()
    assert (tmp_path / "boards").is_dir()
    assert not list((tmp_path / "a" / "run").iterdir())


@pytest.mark.parametrize("below", ["", "run"])
@pytest.mark.parametrize("name", ["checkpoint_dir", "tensorboard_log_dir"])
def test_a_file_where_a_folder_should_be_is_one_clear_error(tmp_path, name, below):
    (tmp_path / "file").write_text("")
    folders = {"checkpoint_dir": str(tmp_path / "run"), name: str(tmp_path / "file" / below)}
    with pytest.raises(ConfigError, match=rf"training\.{name} cannot be written to\. Received: .*file"):
        make_run_folders(TrainingConfig(**folders))


def test_a_folder_where_nothing_can_be_made_is_one_clear_error():
    with pytest.raises(ConfigError, match=r"Choose another with --checkpoint-dir"):
        make_run_folders(TrainingConfig(checkpoint_dir="/proc/myxtts-run"))

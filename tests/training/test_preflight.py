"""What is refused before anything is prepared or compiled."""

import pytest

from myxtts.config.config import TrainingConfig
from myxtts.config.load import parse_config
from myxtts.errors import ConfigError
from myxtts.training.preflight import check_network, make_run_folders
from myxtts.training.trainer import XTTSTrainer
from tests.training.small_runs import quiet_display, small_config


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


def test_a_place_where_nothing_can_be_made_is_one_clear_error():
    with pytest.raises(ConfigError, match=r"Choose another with --checkpoint-dir"):
        make_run_folders(TrainingConfig(checkpoint_dir="/proc/myxtts-run"))

"""Two trainings in one run folder: the second is rejected before it changes anything."""

import pytest

from myxtts.errors import CheckpointError, TrainingError
from myxtts.runtime.locks import RunLock
from tests.runtime.other_process import another_training
from tests.training.small_runs import quiet_display, small_config


def test_a_trainer_is_rejected_before_it_moves_the_earlier_run(corpus, tmp_path):
    from myxtts.training.trainer import XTTSTrainer

    (tmp_path / "step-00000005").mkdir()
    (tmp_path / "log.jsonl").write_text("{}\n")
    with another_training(tmp_path):
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(TrainingError, match="Another training uses"):
            XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display(), starts_anew=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_trainer_releases_the_folder_at_its_end_and_when_it_fails(corpus, tmp_path):
    from myxtts.training.trainer import XTTSTrainer

    with pytest.raises(CheckpointError):
        XTTSTrainer(small_config(corpus, tmp_path, init_from=str(tmp_path / "nothing")), display=quiet_display())
    with another_training(tmp_path):
        pass
    trainer = XTTSTrainer(small_config(corpus, tmp_path, max_steps=1, enable_graph_mode=False), display=quiet_display())
    trainer._speak_at_the_end = lambda checkpoint: []
    assert (tmp_path / "run.lock.json").exists()
    trainer.train()
    assert sorted(path.name for path in tmp_path.glob("run.lock*")) == [RunLock.NAME]
    with another_training(tmp_path):
        pass

"""The promised facade: batches of four tensors, statistics, a verified cache."""

import numpy as np
import pytest

from myxtts.batch import Batch
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.errors import ConfigError
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_metadata

CLIPS = 10


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    lines = make_corpus(folder, CLIPS)
    held_out = {clip_id: lines.pop(clip_id) for clip_id in ("clip001", "clip004")}
    write_metadata(folder, lines, "metadata_train.csv")
    write_metadata(folder, held_out, "metadata_eval.csv")
    return folder


def dataset(corpus, subset="train", **changes):
    return LJSpeechDataset(
        corpus, tiny_config(**({"batch_size": 4, "max_text_length": 40, "max_mel_frames": 96} | changes)), subset
    )


def test_a_batch_unpacks_as_text_mel_and_their_lengths(corpus):
    text, mel, text_lengths, mel_lengths = next(iter(dataset(corpus).create_tf_dataset()))
    assert (text.shape, text.dtype.name) == ((4, 40), "int32")
    assert (mel.shape, mel.dtype.name) == ((4, 96, 80), "float32")
    assert (text_lengths.shape, text_lengths.dtype.name) == ((4,), "int32")
    assert (mel_lengths.shape, mel_lengths.dtype.name) == ((4,), "int32")


@pytest.mark.parametrize("way", [{"use_tf_native_loading": False}, {"preprocessing_mode": "runtime"}])
def test_the_other_ways_of_loading_give_the_batches_of_the_cache(corpus, way):
    expected = list(dataset(corpus).create_tf_dataset())
    found = list(dataset(corpus, **way).create_tf_dataset())
    for batches in zip(found, expected, strict=True):
        for one, other in zip(*batches, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-3)


def test_the_shapes_are_static(corpus):
    spec = dataset(corpus, pad_to_fixed_length=True).create_tf_dataset().element_spec
    assert [each.shape.as_list() for each in spec] == [[4, 40], [4, 96, 80], [4], [4]]


def test_every_clip_comes_once_per_epoch(corpus):
    data = dataset(corpus)
    seen = [
        mel[row, :length].numpy()
        for _, mel, _, lengths in data.create_tf_dataset()
        for row, length in enumerate(lengths.numpy())
        if length
    ]
    expected = [np.array(data.cache.clip_frames(clip)) for clip in data.clips()]
    assert len(seen) == CLIPS - 2
    assert sorted(frames.tobytes() for frames in seen) == sorted(frames.tobytes() for frames in expected)


def test_two_epochs_hold_every_clip_twice_in_different_orders(corpus):
    lengths = np.concatenate([each.numpy() for *_, each in dataset(corpus).create_tf_dataset(epochs=2)])
    first, second = lengths[:8], lengths[8:]
    assert sorted(first) == sorted(second)
    assert list(first) != list(second)


def test_neighboring_seeds_share_no_epoch(corpus):
    """Epoch p of seed 1 must not be epoch p - 1 of seed 2."""

    def epochs(seed):
        lengths = np.concatenate([each.numpy() for *_, each in dataset(corpus).create_tf_dataset(epochs=3, seed=seed)])
        return [tuple(lengths[start : start + 8]) for start in (0, 8, 16)]

    assert not set(epochs(1)) & set(epochs(2))


def test_references_differ_between_epochs(tmp_path):
    lines = make_corpus(tmp_path, 12)
    rows = "".join(f"{clip_id}|{text}|{text}|{'ab'[n % 2]}|en\n" for n, (clip_id, text) in enumerate(lines.items()))
    (tmp_path / "metadata.csv").write_text("id|text|normalized|speaker|language\n" + rows, encoding="utf-8")
    data = LJSpeechDataset(tmp_path, tiny_config(batch_size=12, validation_share=0.01, reference_frames=16), "all")
    references = {}
    for batch in data.create_tf_dataset(full=True, epochs=3):
        for row, slot in zip(*np.nonzero(batch.clips.numpy() >= 0), strict=True):
            references.setdefault(int(batch.clips[row, slot]), []).append(batch.references[row, slot].numpy().tobytes())
    assert all(len(of_clip) == 3 for of_clip in references.values())
    assert any(len(set(of_clip)) > 1 for of_clip in references.values())


def test_subsets_are_the_lists_of_the_corpus(corpus):
    def ids(subset):
        data = dataset(corpus, subset)
        return {data.cache.ids[clip] for clip in data.clips()}

    assert ids("validation") == {"clip001", "clip004"}
    assert ids("train") | ids("validation") == ids("all")
    assert not ids("train") & ids("validation")


def test_full_gives_whole_batches_in_packed_rows(corpus):
    batch = next(iter(dataset(corpus, max_mel_frames=256, max_text_length=60).create_tf_dataset(full=True)))
    assert isinstance(batch, Batch)
    assert batch.clips.shape[1] > 1


def test_packed_rows_are_not_squeezed_into_four_tensors(corpus):
    with pytest.raises(ConfigError, match="full=True"):
        dataset(corpus, plan="packed").create_tf_dataset()


def test_buckets_give_batches_of_their_own_shapes(corpus):
    batches = list(dataset(corpus, plan="buckets", num_buckets=2, batch_size=2).create_tf_dataset())
    assert len({mel.shape[1] for _, mel, _, _ in batches}) == 2


def test_statistics_have_the_promised_names(corpus):
    stats = dataset(corpus).get_statistics()
    assert stats["text_length"]["max"] >= stats["text_length"]["percentile_50"]
    assert stats["mel_length"]["percentile_99"] <= stats["mel_length"]["max"]
    assert {"min", "mean", "max", "percentile_50", "percentile_90", "percentile_95", "percentile_99"} == set(
        stats["mel_length"]
    )


def test_the_cache_is_verified_and_repaired(corpus):
    data = dataset(corpus, loudness_db=-20.0)
    path = data.cache.frames_path
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    assert not dataset(corpus, loudness_db=-20.0).verify_and_fix_cache(fix=False).is_clean
    assert data.verify_and_fix_cache(fix=True).is_repaired
    assert data.verify_and_fix_cache(fix=False).is_clean
    assert data.cache.num_clips == CLIPS


def test_an_unknown_subset_is_refused(corpus):
    with pytest.raises(ConfigError, match="train, validation, all"):
        LJSpeechDataset(corpus, subset="trian")

"""Untrusted .onnx files: whatever is in them, the answer is one line before ONNX Runtime sees them."""

import os
from contextlib import suppress

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from myxtts.errors import MyXTTSError, VoiceError
from myxtts.synthesis.onnx_file import read_model
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import read_description, voice_tensors
from tests.synthesis.tiny_voice import write_voice


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_voice(tmp_path_factory.mktemp("voices") / "voice")


@pytest.fixture
def change(folder):
    """Changes voice.onnx; afterwards it is as before."""
    path = folder / "voice.onnx"
    before = path.read_bytes()

    def apply(change):
        model = onnx.load_model_from_string(before)
        change(model)
        path.write_bytes(model.SerializeToString())
        return path

    yield apply
    path.write_bytes(before)


def external_data(model):
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    model.graph.initializer[0].external_data.add(key="location", value="/etc/passwd")


def hidden_external_data(model):
    model.graph.initializer[0].external_data.add(key="location", value="../secret")


def unknown_operator(model):
    model.graph.node.append(helper.make_node("RandomNormal", [], ["x"], shape=[1 << 40]))


def custom_operator(model):
    model.graph.node[0].domain = "com.example"


def foreign_domain(model):
    model.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))


def function(model):
    model.functions.append(helper.make_function("x", "Mul", ["a"], ["b"], [], []))


def nested_loop(model):
    loop = next(node for node in model.graph.node if node.op_type == "Loop")
    loop.attribute[0].g.node.append(loop)


def operator_in_the_loop(model):
    loop = next(node for node in model.graph.node if node.op_type == "Loop")
    loop.attribute[0].g.node[0].op_type = "If"


def weights_in_the_loop(model):
    loop = next(node for node in model.graph.node if node.op_type == "Loop")
    loop.attribute[0].g.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "x"))


def tensor_attribute(model):
    model.graph.node[0].attribute.append(helper.make_attribute("x", numpy_helper.from_array(np.zeros(1, np.float32))))


def huge_shape(model):
    model.graph.initializer[0].dims[:] = [1 << 40, 1 << 40]


def negative_shape(model):
    tensor = next(each for each in model.graph.initializer if each.name == "mel_mean")
    tensor.dims[:] = [-1, -tensor.dims[0]]


def not_finite(model):
    tensor = next(each for each in model.graph.initializer if each.name == "mel_mean")
    tensor.raw_data = np.full(tensor.dims[0], np.nan, np.float32).tobytes()


def text_tensor(model):
    model.graph.initializer[0].data_type = TensorProto.STRING


def large_constant(model):
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(5000, np.int64), "x"))


def huge_padding(model):
    padding = next(node for node in model.graph.node if node.op_type == "Pad")
    tensor = next(each for each in model.graph.initializer if each.name == padding.input[1])
    tensor.raw_data = np.array([1 << 30, 0, 1, 0]).tobytes()


def other_format(model):
    helper.set_model_props(model, {"format": "\x1b[31mred"})


def other_inputs(model):
    model.graph.input[0].name = "text"


def other_opset(model):
    model.opset_import[0].version = 99


def sparse_weights(model):
    model.graph.sparse_initializer.add()


def too_many_nodes(model):
    model.graph.node.extend([model.graph.node[0]] * 20_001)


def other_symbols(model):
    tensor = next(each for each in model.graph.initializer if each.name == "text_encoder/embedding/embeddings")
    tensor.CopyFrom(numpy_helper.from_array(np.zeros((3, 16), np.float16), tensor.name))


def no_features(model):
    del model.graph.value_info[:]


def contradicting_shapes(model):
    tensor = next(each for each in model.graph.initializer if each.name == "mean_projection/kernel")
    tensor.CopyFrom(numpy_helper.from_array(np.zeros((5, 7), np.float16), tensor.name))


@pytest.mark.parametrize(
    "damage",
    [
        external_data, hidden_external_data, unknown_operator, custom_operator, foreign_domain, function, nested_loop,
        operator_in_the_loop, weights_in_the_loop, tensor_attribute, huge_shape, negative_shape, not_finite, text_tensor,
        large_constant, huge_padding, other_format, other_inputs, other_opset, sparse_weights, too_many_nodes,
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_before_a_session_is_made(folder, change, damage, monkeypatch):
    monkeypatch.setattr("onnxruntime.InferenceSession", None)
    change(damage)
    with pytest.raises(VoiceError, match=r"voice\.onnx cannot be used: ") as caught:
        Voice.load(folder)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("damage", [other_symbols, no_features, contradicting_shapes])
def test_a_graph_that_does_not_fit_its_voice_is_one_line(folder, change, damage):
    change(damage)
    with pytest.raises(VoiceError) as caught:
        Voice.load(folder).synthesize("hello", steps=1)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_a_missing_cut_off_or_enormous_file_and_a_pipe_are_refused(folder, tmp_path):
    tensors = voice_tensors(read_description(folder))
    whole = (folder / "voice.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    with (tmp_path / "huge.onnx").open("wb") as file:
        file.truncate(1 << 40)  # sparse
    os.mkfifo(tmp_path / "pipe.onnx")
    for name, message in [
        ("no", "No such file"),
        ("cut", "cut off"),
        ("huge", "expected 1,073,741,824 at most"),
        ("pipe", "a pipe"),
    ]:
        with pytest.raises(VoiceError, match=message):
            read_model(tmp_path / f"{name}.onnx", *tensors)


def test_a_file_with_another_hash_is_refused(folder):
    with pytest.raises(VoiceError, match="its hash differs"):
        read_model(folder / "voice.onnx", *voice_tensors(read_description(folder)), sha256="0" * 64)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_bytes_raise_our_own_error_or_still_speak(folder, tmp_path, data):
    content = bytearray((folder / "voice.onnx").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    copy = tmp_path / "voice"
    copy.mkdir(exist_ok=True)
    (copy / "voice.json").write_bytes((folder / "voice.json").read_bytes())
    (copy / "voice.onnx").write_bytes(content)
    with suppress(MyXTTSError):  # any other exception fails
        Voice.load(copy).synthesize("hello", steps=1)

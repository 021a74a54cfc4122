"""The fixes of the findings as Python code that compiles, with the user's own names where they are known."""

from __future__ import annotations

import keyword
import os
import re

from myxtts.diagnostics.observe.source_lines import SourceLocation, source_text


def identifier(text: str, default: str) -> str:
    """A name that may stand in code: `text` itself, its last part (`batch.mel` → `mel`), or the default."""
    last = text.rsplit(".", 1)[-1]
    return last if last.isidentifier() and not keyword.iskeyword(last) else default


def signature_for_any_shape(function: str, arguments: tuple[str, ...], is_jit: bool, argument: str) -> str:
    """One trace for all shapes; for XLA, one padded shape."""
    if is_jit:
        name = identifier(argument, "batch")
        return f"{name} = tf.pad({name}, [[0, longest - tf.shape({name})[0]], [0, 0]])  # one shape for every batch"
    name = identifier(function, "train_step")
    return f"@tf.function(reduce_retracing=True)\ndef {name}({_parameters(arguments)}): ..."


def cast(argument: str, dtype: str, function: str) -> str:
    """One dtype for every call."""
    name = identifier(argument, "batch")
    return f"{name} = tf.cast({name}, tf.{identifier(dtype, 'float32')})  # before {identifier(function, 'train_step')}"


def tensor_argument(function: str, arguments: tuple[str, ...], argument: str) -> str:
    """A tensor in place of a Python number."""
    name = identifier(argument, "value")
    others = [one for one in _names(arguments) if one not in (name, "self")]
    given = ", ".join([*others, f"{name}=tf.constant({name})"])
    return f"{identifier(function, 'train_step')}({given})  # a tensor: its value does not matter to the trace"


def one_object(argument: str, description: str) -> str:
    """The same object in every call."""
    kind = identifier(description.removesuffix(" object"), "make_it")
    return f"{identifier(argument, 'setting')} = {kind}()  # once, before the loop; pass the same object every time"


def drop_remainder(location: SourceLocation) -> str:
    """No smaller batch at the end of an epoch."""
    name = assigned_name(location, "dataset")
    return f"{name} = {name}.batch(batch_size, drop_remainder=True)"


def function_once(function: str) -> str:
    """One `tf.function` for the whole training."""
    name = identifier(function, "train_step")
    return f"{name} = tf.function({name})  # once, before the loop"


COMPILE_ONCE = "model.compile(optimizer, loss)  # once, before the loop"
PREFETCH_DEEPER = "dataset = dataset.prefetch(8)  # deeper than one stall lasts; or a smaller shuffle buffer"
VARIABLES_ONCE = "variable = tf.Variable(initial_value)  # layers, optimizers, variables: once, before the loop"
SWITCH_OFF = {
    "tf.config.run_functions_eagerly(True)": "tf.config.run_functions_eagerly(False)",
    "compile(run_eagerly=True)": "model.compile(optimizer, loss, run_eagerly=False)",
}
PRINT_OUTSIDE = "if step % 100 == 0:  # outside of the tf.function\n    print(float(loss))"
GENERATOR_TO_DATASET = (
    "dataset = tf.data.Dataset.from_tensor_slices(items)\n"
    "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)"
)


def without_recompiling(function: str, location: SourceLocation, is_batch: bool) -> str:
    """One shape for XLA, or no XLA where a value decides a size."""
    if is_batch:
        return padded_batches(location)
    name = identifier(function, "train_step")
    return (
        f"{name} = tf.function({name}, jit_compile=False)  # or keep the sizes constant: tf.range(n), x[:n], tf.reshape"
    )


def padded_batches(location: SourceLocation) -> str:
    """Batches of one shape."""
    name = assigned_name(location, "dataset")
    return f"{name} = {name}.padded_batch(batch_size, padded_shapes=longest_shape, drop_remainder=True)"


def read_every_n_steps(location: SourceLocation) -> str:
    """A metric on the device, read now and then."""
    found = re.search(r"\b(?:float|int|bool|np\.\w+)\((\w+)\)|(\w+)\.numpy\(\)", source_text(location))
    name = identifier((found.group(1) or found.group(2)) if found else "", "loss")
    return (
        f"mean_{name} = keras.metrics.Mean()  # before the loop\nmean_{name}.update_state({name})  # in every step\n"
        f"if step % 100 == 0:\n    print(float(mean_{name}.result()))"
    )


def as_function(function: str) -> str:
    """The step as one graph."""
    name = identifier(function, "train_step")
    return f"@tf.function  # above the function that holds the GradientTape\ndef {name}(*batch): ..."


def native_step(function: str) -> str:
    """TensorFlow's operations in place of Python in the step."""
    name = identifier(function, "train_step")
    return f"@tf.function\ndef {name}(*batch): ...  # with TensorFlow's own operations, or the Python outside of it"


def less_often(location: SourceLocation) -> str:
    """The line itself, every 100 steps."""
    return f"if step % 100 == 0:  # less often, or in another thread\n    {_statement(location)}"


def native_map(function: str) -> str:
    """TensorFlow's operations in place of Python."""
    name = identifier(function, "load")
    return f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)  # tf.io, tf.image, tf.audio, tf.signal in {name}"


def parallel_map(function: str, location: SourceLocation) -> str:
    """Several threads."""
    name = assigned_name(location, "dataset")
    return f"{name} = {name}.map({identifier(function, 'prepare')}, num_parallel_calls=tf.data.AUTOTUNE)"


def cached_map(function: str, location: SourceLocation) -> str:
    """The work of the first epoch, kept."""
    name = assigned_name(location, "dataset")
    call = f"{name}.map({identifier(function, 'prepare')}, num_parallel_calls=tf.data.AUTOTUNE)"
    return f"{name} = {call}.cache()  # before shuffle, batch and anything random"


def prefetch(location: SourceLocation) -> str:
    """Batches ahead of the step."""
    name = assigned_name(location, "dataset")
    return f"{name} = {name}.prefetch(tf.data.AUTOTUNE)  # the last transformation"


def prepare_once(location: SourceLocation) -> str:
    """The result of a costly stage, stored."""
    name = assigned_name(location, "dataset")
    return f'{name}.save("prepared")  # once\n{name} = tf.data.Dataset.load("prepared")  # in every training'


def more_workers(class_name: str) -> str:
    """Several threads for a PyDataset."""
    return f"{identifier(class_name, 'Data')}(workers={os.cpu_count() or 2}, max_queue_size=16)  # passed to super().__init__"


def dataset_once(location: SourceLocation) -> str:
    """One dataset for all epochs."""
    name = assigned_name(location, "dataset")
    return f"for epoch in range(epochs):  # {name} is built once, before this loop\n    for batch in {name}: ..."


def short_epoch_start(location: SourceLocation, has_shuffle: bool) -> str:
    """One iterator for all epochs, a smaller buffer."""
    name = assigned_name(location, "dataset")
    size = "1_000" if has_shuffle else "batch_size * 8"
    return f"{name} = {name}.shuffle({size}).repeat()  # one iterator for all epochs: its buffer fills once"


def call_the_model(location: SourceLocation) -> str:
    """The model itself in place of predict."""
    text = source_text(location)
    owner = re.search(r"(\w+)\.(?:predict|evaluate)\(", text)
    argument = re.search(r"\.(?:predict|evaluate)\((\w+)\s*[,)]", text)
    model = identifier(owner.group(1) if owner else "", "model")
    inputs = identifier(argument.group(1) if argument else "", "inputs")
    return f"infer = tf.function({model})  # once, before the loop\noutputs = infer({inputs}, training=False)"


def assigned_name(location: SourceLocation, default: str) -> str:
    """The name that a line assigns to, or iterates over."""
    text = source_text(location)
    found = re.match(r"(\w+)\s*=[^=]", text) or re.match(r"for .+? in (?:enumerate\()?(\w+)[:.)]", text)
    return identifier(found.group(1) if found else "", default)


def _statement(location: SourceLocation) -> str:
    """The line's text if it is a statement that compiles; otherwise a call by the name of its function."""
    text = source_text(location)
    try:
        compile(text, "line", "exec")
    except SyntaxError:
        text = ""
    if text and not text.startswith(("return", "import", "from", "#", "@")):
        return text
    return f"{identifier(location.function, 'work')}()"


def _parameters(arguments: tuple[str, ...]) -> str:
    return ", ".join(_names(arguments))


def _names(arguments: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(identifier(name, f"argument_{index}") for index, name in enumerate(arguments)))

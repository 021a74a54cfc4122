"""The fixes of the findings as Python code that compiles, with the user's own names where they are known."""

from __future__ import annotations

import keyword
import os
import re

from myxtts.diagnostics.observe.source_lines import SourceLocation, counter_at, source_text

DROP_REMAINDER = "{dataset} = {dataset}.batch(batch_size, drop_remainder=True)"
PADDED_BATCHES = "{dataset} = {dataset}.padded_batch(batch_size, padded_shapes=longest_shape, drop_remainder=True)"
PARALLEL_MAP = "{dataset} = {dataset}.map({function}, num_parallel_calls=tf.data.AUTOTUNE)"
CACHED_MAP = PARALLEL_MAP + ".cache()  # before shuffle, batch and anything random"
PREFETCH = "{dataset} = {dataset}.prefetch(tf.data.AUTOTUNE)  # the last transformation"
PREPARE_ONCE = '{dataset}.save("prepared")  # once\n{dataset} = tf.data.Dataset.load("prepared")  # in every training'
BATCH_FIRST = (
    "{dataset} = {dataset}.batch(batch_size).map({function}, num_parallel_calls=tf.data.AUTOTUNE)  # whole batches, not rows\n"
    + PREPARE_ONCE.replace("# once", "# or, if it is the same in every epoch, once")
)
DATASET_ONCE = (
    "for epoch in range(epochs):  # {dataset} is built once, before this loop\n    for batch in {dataset}: ..."
)
ONE_ITERATOR = "iterator = iter({dataset}.repeat())  # once, before the loop\nbatch = next(iterator)  # in every step"
FUNCTION_ONCE = "{step} = tf.function({step})  # once, before the loop"
WITHOUT_XLA = (
    "{step} = tf.function({step}, jit_compile=False)  # or keep the sizes constant: tf.range(n), x[:n], tf.reshape"
)
AS_FUNCTION = "@tf.function  # above the function that holds the GradientTape\ndef {step}(*batch): ..."
NATIVE_STEP = "@tf.function\ndef {step}(*batch): ...  # with TensorFlow's own operations, or the Python outside of it"
COMPILE_ONCE = "model.compile(optimizer, loss)  # once, before the loop"
PREFETCH_DEEPER = "dataset = dataset.prefetch(8)  # deeper than one stall lasts; or a smaller shuffle buffer"
VARIABLES_ONCE = "variable = tf.Variable(initial_value)  # layers, optimizers, variables: once, before the loop"
SWITCH_OFF = {
    "tf.config.run_functions_eagerly(True)": "tf.config.run_functions_eagerly(False)",
    "compile(run_eagerly=True)": "model.compile(optimizer, loss, run_eagerly=False)",
}
PRINT_OUTSIDE = "if step % 100 == 0:  # outside of the tf.function\n    print(float(loss))"
OPERATIONS_ONCE = (
    "value = tf.compat.v1.placeholder(tf.float32)  # once, before the loop, as every operation\n"
    "update = variable.assign(value)\n"
    "session.graph.finalize()  # from here on a new operation is an error\n"
    "session.run(update, feed_dict={{value: new_value}})  # in every step"
)
ARRAYS_TO_DATASET = (
    "dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(batch_size).prefetch(tf.data.AUTOTUNE)\n"
    "model.fit(dataset)  # the arrays as tensors, instead of one slice after the other from Python"
)
GENERATOR_TO_DATASET = (
    "dataset = tf.data.Dataset.from_tensor_slices(items)\n"
    "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(tf.data.AUTOTUNE)"
)


def identifier(text: str, default: str) -> str:
    """A name that is valid in code: `text` itself, its last part (`batch.mel` → `mel`), or the default."""
    last = text.rsplit(".", 1)[-1]
    return last if last.isidentifier() and not keyword.iskeyword(last) else default


def of_dataset(template: str, location: SourceLocation, function: str = "") -> str:
    """A fix of a pipeline: {dataset} is the name that the line assigns to, {function} what it maps."""
    return template.format(dataset=assigned_name(location, "dataset"), function=identifier(function, "prepare"))


def of_step(template: str, function: str) -> str:
    """A fix of the training step, by its name."""
    return template.format(step=identifier(function, "train_step"))


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


def without_recompiling(function: str, location: SourceLocation, is_batch: bool) -> str:
    """One shape for XLA, or no XLA where a value decides a size."""
    if is_batch:
        return of_dataset(PADDED_BATCHES, location)
    return of_step(WITHOUT_XLA, function)


def read_every_n_steps(location: SourceLocation) -> str:
    """A metric on the device, read now and then; for anything but one value, the line itself every 100 steps."""
    found = re.search(r"\b(?:float|int|bool|np\.\w+)\((\w+)\)|(\w+)\.numpy\(\)", source_text(location))
    if found is None and source_text(location):
        return less_often(location)
    name = identifier((found.group(1) or found.group(2)) if found else "", "loss")
    return (
        f"mean_{name} = keras.metrics.Mean()  # before the loop\nmean_{name}.update_state({name})  # in every step\n"
        f"if {_now_and_then(location)}:\n    print(float(mean_{name}.result()))"
    )


def less_often(location: SourceLocation) -> str:
    """The line itself, every 100 steps, or every 10 epochs."""
    return f"if {_now_and_then(location)}:  # less often, or in another thread\n    {_statement(location)}"


def _now_and_then(location: SourceLocation) -> str:
    name = identifier(counter_at(location), "step")
    return f"{name} % {10 if 'epoch' in name else 100} == 0"


def keep_less(location: SourceLocation, container: str) -> str:
    """A bound for what is kept of every step."""
    changes = r"(\w+)\.(?:append|extend|add|insert|update|setdefault)\(|(\w+)\[.+\]\s*=|(\w+)\s*\+="
    found = re.search(changes, source_text(location))
    name = identifier(next((group for group in found.groups() if group), "") if found else "", "kept")
    if container == "deque":
        return f"{name} = collections.deque(maxlen=100)  # the oldest entries are dropped"
    if container == "list":
        return f"del {name}[:-100]  # keep the newest only, or of each what is needed: float(loss)"
    return f"{name}.clear()  # when it is no longer needed, or keep of each what is needed: float(loss)"


def native_map(function: str) -> str:
    """TensorFlow's operations in place of Python."""
    name = identifier(function, "load")
    return f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)  # tf.io, tf.image, tf.audio, tf.signal in {name}"


def more_workers(class_name: str) -> str:
    """Several threads for a PyDataset."""
    return f"{identifier(class_name, 'Data')}(workers={os.cpu_count() or 2}, max_queue_size=16)  # passed to super().__init__"


def short_epoch_start(location: SourceLocation, has_shuffle: bool) -> str:
    """One iterator for all epochs, a smaller buffer."""
    name = assigned_name(location, "dataset")
    size = "1_000" if has_shuffle else "batch_size * 8"
    return f"{name} = {name}.shuffle({size}).repeat()  # one iterator for all epochs: its buffer fills once"


def call_the_model(location: SourceLocation) -> str:
    """The model itself in place of predict."""
    argument = re.search(r"\.(?:predict|evaluate)\((\w+)\s*[,)]", source_text(location))
    model = _owner(location, "predict|evaluate")
    inputs = identifier(argument.group(1) if argument else "", "inputs")
    return f"infer = tf.function({model})  # once, before the loop\noutputs = infer({inputs}, training=False)"


def validate_less(location: SourceLocation) -> str:
    """Validation after every fifth epoch, on some of its batches."""
    model = _owner(location, "fit")
    return f"{model}.fit(dataset, validation_data=held_out, validation_freq=5, validation_steps=20)"


def longer_epochs(location: SourceLocation) -> str:
    """A hundred passes over the data as one epoch."""
    return f"{_owner(location, 'fit')}.fit(dataset.repeat(100), epochs=epochs // 100)  # a long epoch has one start"


def _owner(location: SourceLocation, methods: str) -> str:
    """The object whose method the line calls."""
    found = re.search(rf"(\w+)\.(?:{methods})\(", source_text(location))
    return identifier(found.group(1) if found else "", "model")


def assigned_name(location: SourceLocation, default: str) -> str:
    """The name that a line assigns to, or iterates over."""
    text = source_text(location)
    found = (
        re.search(r"\b(?:iter|fit)\((\w+)[,)]", text)
        or re.match(r"(\w+)\s*=[^=]", text)
        or re.match(r"for .+? in (?:enumerate\()?(\w+)[:.)]", text)
    )
    return identifier(found.group(1) if found else "", default)


def _statement(location: SourceLocation) -> str:
    """The line's text if it is a statement that compiles; otherwise a call by the name of its function."""
    text = source_text(location)
    try:
        compile(text, "line", "exec")
    except SyntaxError:
        text = ""
    if text and not text.startswith(("return", "import", "from", "#", "@", "def ", "class ")):
        return text
    return f"{identifier(location.function, 'work')}()"


def _parameters(arguments: tuple[str, ...]) -> str:
    return ", ".join(_names(arguments))


def _names(arguments: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(identifier(name, f"argument_{index}") for index, name in enumerate(arguments)))

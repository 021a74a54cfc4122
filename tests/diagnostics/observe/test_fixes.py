"""Every fix is code that compiles, whatever the user's names are."""

import inspect
import linecache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.diagnostics.observe import fixes
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation

LINES = ["dataset = load()", "for batch in data:", "for step, batch in enumerate(data):", "return float(loss)", "t += a.numpy()",
         "model.predict(images, verbose=0)", "if x:", "", "@tf.function", "x = (",
         "checkpoint.save(path)", "kept[step] = loss", "def f(): pass"]  # fmt: skip

CONSTANTS = [value for name, value in vars(fixes).items() if name.isupper() and isinstance(value, str)]
TEMPLATES = [text for text in CONSTANTS if "{" in text]


def location(text: str) -> SourceLocation:
    linecache.cache["fix.py"] = (len(text), None, [f"{text}\n"], "fix.py")
    return SourceLocation("fix.py", 1, "train")


@given(
    function=st.sampled_from(["train_step", "<lambda>", "class", "Model.step", "_step", "شبکه", ""]),
    arguments=st.lists(st.sampled_from(["self", "batch", "batch.mel", "0", "lambda", "x y"]), max_size=4).map(tuple),
    argument=st.sampled_from(["batch", "batch.mel", "0", "scale", "import"]),
    text=st.sampled_from(LINES),
    flag=st.booleans(),
)
def test_every_fix_compiles(function, arguments, argument, text, flag):
    values = {
        "function": function, "class_name": function, "arguments": arguments, "argument": argument, "is_jit": flag,
        "is_batch": flag, "has_shuffle": flag, "location": location(text), "dtype": "float32", "description": "Setting object",
        "container": "list" if flag else "dict",
    }  # fmt: skip
    makers = [
        one for name, one in vars(fixes).items()
        if inspect.isfunction(one) and one.__module__ == fixes.__name__ and not name.startswith("_")
        and name not in ("identifier", "assigned_name", "of_dataset", "of_step")
    ]  # fmt: skip
    assert len(makers) > 8
    for make in makers:
        code = make(**{name: values[name] for name in inspect.signature(make).parameters})
        compile(code, make.__name__, "exec")
    for template in TEMPLATES:
        is_of_step = "{step}" in template
        code = fixes.of_step(template, function) if is_of_step else fixes.of_dataset(template, location(text), function)
        compile(code, template, "exec")


@pytest.mark.parametrize(
    "code",
    [text for text in CONSTANTS if text not in TEMPLATES] + list(fixes.SWITCH_OFF.values()),
)
def test_constant_fixes_compile(code):
    compile(code, "fix", "exec")


def test_fix_has_the_users_own_names():
    assert "clips = clips.prefetch" in fixes.of_dataset(fixes.PREFETCH, location("clips = tf.data.Dataset.range(3)"))
    assert "mean_penalty.update_state(penalty)" in fixes.read_every_n_steps(location("log(float(penalty))"))
    assert fixes.read_every_n_steps(location("fresh = net.get_weights()")).endswith("\n    fresh = net.get_weights()")
    assert fixes.tensor_argument("step", ("self", "batch", "rate"), "rate").startswith(
        "step(batch, rate=tf.constant(rate))"
    )
    assert "tf.function(generator)" in fixes.call_the_model(location("fake = generator.predict(noise)"))
    assert "dataset = dataset.prefetch" in fixes.of_dataset(fixes.PREFETCH, UNKNOWN)
    assert "clips = clips.prefetch" in fixes.of_dataset(
        fixes.PREFETCH, location("history = model.fit(clips, epochs=3)")
    )
    assert "iter(clips.repeat())" in fixes.of_dataset(fixes.ONE_ITERATOR, location("step(next(iter(clips)))"))
    assert fixes.validate_less(location("history = net.fit(clips)")).startswith("net.fit(")


@pytest.mark.parametrize(
    ("source", "line", "condition"),
    [
        ("for turn in range(9):\n    log(turn)\n", 2, "turn % 100"),
        ("for epoch in tqdm(range(9)):\n    for index, batch in enumerate(data):\n        log()\n", 3, "index % 100"),
        ("for epoch in range(9):\n    for batch in data:\n        pass\n    log()\n", 4, "epoch % 10"),
        (
            "class Log(Callback):\n    def on_train_batch_end(self, batch, logs=None):\n        log()\n",
            3,
            "batch % 100",
        ),
        ("for turn in range(9):\n    def work():\n        log()\n    work()\n", 3, "step % 100"),  # not in scope there
        (
            "for epoch in range(9):\n    for batch in data:\n        log()\n",
            3,
            "step % 100",
        ),  # one epoch has many steps
        ("for epoch in range(9):\n    while more():\n        log()\n", 3, "step % 100"),
        ("for _ in range(9):\n    log()\n", 2, "step % 100"),
        ("for x in (\n", 1, "step % 100"),
    ],
)
def test_condition_counts_with_the_users_own_name(source, line, condition):
    linecache.cache["loop.py"] = (len(source), None, source.splitlines(keepends=True), "loop.py")
    fix = fixes.less_often(SourceLocation("loop.py", line, "log"))
    assert fix.startswith(f"if {condition} == 0:")
    compile(fix, "fix", "exec")

// Measure: the evaluation page of a voice, made by `myxtts evaluate` and shown as it is.
import { $, action, ago, fillSelect, getJson, h, loadVoices, report, request, sendJson, t } from "./ui.js";

let evaluations = [], selected = null, timer = 0, shownPage = "";

export function setUp() {
  action($("measure-form"), "submit", start);
}

export async function show() {
  try {
    const [voices, { corpora }] = await Promise.all([loadVoices(), getJson("runs")]);
    fillSelect($("measure-voice"), voices.map((voice) => [voice.id, voice.id]));
    fillSelect($("measure-corpus"), corpora.map((name) => [name, name === "bundled" ? t("bundledCorpus") : name]));
  } catch (error) { report(error); }
  await poll();
}
export function hide() { clearTimeout(timer); }
export function translate() {
  const bundled = $("measure-corpus").querySelector('[value="bundled"]');
  if (bundled) bundled.textContent = t("bundledCorpus");
  render();
}

async function poll() {
  clearTimeout(timer);
  try {
    ({ evaluations } = await getJson("evaluations"));
    selected ??= evaluations.find((each) => each.state === "finished")?.name ?? null;
    render();
    $("measure-empty").hidden = evaluations.length > 0;
  } catch (error) { report(error); }
  if (!$("measure").hidden) timer = setTimeout(poll, 2500);
}

async function start() {
  const made = await sendJson("POST", "evaluations", {
    voice: $("measure-voice").value, corpus: $("measure-corpus").value, sentences: Math.max(1, Math.round(+$("measure-count").value) || 10),
  });
  selected = made.name;
  await poll();
}

function render() {
  $("measure-list").replaceChildren(...evaluations.map((each) => h("li", { className: each.name === selected ? "entry chosen" : "entry" },
    h("b", { dir: "ltr" }, each.voice || each.name), h("span", { className: `badge ${each.state}` }, t(`state_${each.state}`)),
    h("span", { className: "hint" }, `${each.corpus === "bundled" ? t("bundledCorpus") : each.corpus} · ${ago(each.changed_at)}`),
    each.state === "running" ? h("span", { className: "hint line", dir: "ltr" }, each.line) : null,
    each.state === "failed" ? h("p", { className: "error line", dir: "ltr" }, each.line) : null,
    h("span", { className: "actions end" },
      each.state === "running" ? h("button", { type: "button", className: "small", onclick: () => stop(each.name).catch(report) }, t("stop")) : null,
      each.state === "finished" ? h("button", { type: "button", className: "small", "aria-pressed": String(each.name === selected), onclick: () => open(each.name) }, t("openPage")) : null))));
  const finished = evaluations.find((each) => each.name === selected && each.state === "finished");
  $("measure-page").hidden = !finished;
  if (finished && shownPage !== finished.name) {
    shownPage = finished.name;
    $("measure-frame").src = `api/evaluations/${finished.name}/page`;
  }
}

function open(name) {
  selected = name;
  render();
  $("measure-page").scrollIntoView({ block: "start" });
}

async function stop(name) {
  await request(`evaluations/${name}/stop`, { method: "POST" });
  await poll();
}

// Train: start, pause, resume and stop runs, and watch the files that they write, also of runs started in a terminal.
import { $, action, ago, duration, fillSelect, getJson, h, loadVoices, number, percent, query, report, request, sendJson, t } from "./ui.js";
import { lineChart } from "./chart.js";
import { pcmToFloat, wavBlob } from "./audio.js";

const POLL_MILLISECONDS = 2000;
let runs = [], selected = null, detail = null, timer = 0, view = null, compared = {}, recordingOf = {}, isNew = false;

export function setUp() {
  $("train-new").addEventListener("click", () => { selected = null; isNew = true; openForm().catch(report); });
  $("train-start").addEventListener("change", showHint);
  action($("train-form"), "submit", start);
}

export async function show() {
  await poll();
  if (!selected && !isNew && runs.length) select(runs[0].name);
}
export function hide() { clearTimeout(timer); }
export function translate() { view = null; renderList(); if (detail && selected) renderDetail(); if (!$("train-form").hidden) openForm().catch(report); }

async function poll() {
  clearTimeout(timer);
  try {
    const answer = await getJson("runs");
    runs = answer.runs;
    renderList();
    if (selected) {
      const name = selected;
      const found = await getJson(`run?${query({ name })}`);
      if (name === selected) { detail = found; renderDetail(); }
    }
  } catch (error) { report(error); }
  if (!$("train").hidden) timer = setTimeout(poll, document.hidden ? 5 * POLL_MILLISECONDS : POLL_MILLISECONDS);
}

function renderList() {
  $("train-empty").hidden = runs.length > 0 || isNew;
  $("train-list").replaceChildren(...runs.map((run) => h("li", {}, h("button", {
    type: "button", className: run.name === selected ? "entry chosen" : "entry", "aria-current": run.name === selected ? "true" : null, onclick: () => select(run.name),
  }, h("b", { dir: "ltr" }, shortName(run.name)), badge(run.state),
    h("span", { className: "hint" }, `${t("step")} ${number(run.step)} · ${ago(run.changed_at)}`)))));
}

const shortName = (name) => name.replace(/^runs\//, "");
const badge = (state) => h("span", { className: `badge ${state}` }, t(`state_${state}`));

function select(name) {
  if (selected !== name) { view = null; detail = null; }
  selected = name;
  isNew = false;
  $("train-form").hidden = true;
  poll();
}

async function openForm() {
  $("train-detail").hidden = true;
  $("train-form").hidden = false;
  $("train-empty").hidden = true;
  const [{ corpora, sizes }, voices] = await Promise.all([getJson("runs"), loadVoices()]);
  fillSelect($("train-corpus"), corpora.map((name) => [name, name === "bundled" ? t("bundledCorpus") : name]));
  fillSelect($("train-start"), [["", t("fromNothing")], ...voices.map((voice) => [voice.id, voice.id])]);
  fillSelect($("train-size"), sizes.map((size) => [size, size]));
  showHint();
  if (document.activeElement === $("train-new")) $("train-name").focus();
}

function showHint() {
  const isTuned = Boolean($("train-start").value);
  $("train-size").disabled = isTuned;
  $("train-hint").textContent = t(isTuned ? "trainHintTune" : "trainHintNew");
}

async function start() {
  const { name } = await sendJson("POST", "runs", {
    name: $("train-name").value, corpus: $("train-corpus").value, size: $("train-size").value || "tiny",
    start: $("train-start").value || null, minutes: +$("train-minutes").value,
  });
  $("train-name").value = "";
  select(name);
}

async function act(kind) {
  await sendJson("POST", "run", { name: selected, action: kind });
  await poll();
}

// --- one run ---

function renderDetail() {
  $("train-detail").hidden = false;
  $("train-form").hidden = true;
  $("train-empty").hidden = true;
  view ??= buildView();
  const { figures, shares } = detail;
  view.title.textContent = shortName(detail.name);
  view.state.replaceChildren(badge(detail.state), detail.corpus ? ` ${detail.corpus === "bundled" ? t("bundledCorpus") : detail.corpus}` : "", detail.is_from_terminal ? ` ${t("terminalRun")}` : "");
  const isActive = detail.is_running && !["stopping", "finished", "failed"].includes(detail.state);
  view.stop.hidden = !isActive;
  view.pause.hidden = !isActive || detail.is_from_terminal; // which has to be resumed there
  view.resume.hidden = !detail.can_resume;
  view.hint.hidden = view.pause.hidden;
  const isTold = ["starting", "failed"].includes(detail.state) && detail.line;
  view.line.hidden = !isTold;
  view.line.className = detail.state === "failed" ? "error line" : "hint line";
  view.line.textContent = isTold ? detail.line : "";
  const dash = "–";
  const facts = {
    step: number(detail.step) + (detail.total_steps ? ` / ${number(detail.total_steps)}` : ""), loss: figures.loss == null ? dash : number(figures.loss, 3),
    usefulFrames: figures.useful_frames_per_second == null ? dash : number(figures.useful_frames_per_second),
    waiting: shares && detail.step ? percent(shares.wait, 1) : dash, padding: figures.padding_share == null ? dash : percent(figures.padding_share, 1),
    deviceBusy: shares && detail.step ? percent(shares.device, 1) : dash, timeLeft: detail.left_seconds == null ? dash : duration(detail.left_seconds),
  };
  for (const [key, value] of Object.entries(facts)) view.facts[key].textContent = value;
  const { verdict } = detail;
  view.verdict.className = `verdict ${verdict ? (verdict.kind === "busy" ? "good" : "bad") : ""}`;
  view.verdict.textContent = verdict ? t(`verdict_${verdict.kind}`, { percent: percent(verdict.value, 1), count: number(verdict.value) }) : t("notYet");
  renderAccount();
  view.loss.replaceChildren(lineChart(t("lossCurve"), [
    { name: t("trainLoss"), points: detail.curves.train ?? [], className: "first" },
    { name: t("validationLoss"), points: detail.curves.validation ?? [], className: "second", hasDots: true },
  ], { empty: t("noCurve"), stepName: t("step") }));
  view.device.replaceChildren(lineChart(t("deviceCurve"), [{ name: t("deviceBusy"), points: detail.device, className: "first" }],
    { low: 0, high: 1, isPercent: true, empty: t("noCurve"), stepName: t("step") }));
  renderAlignment();
  renderSamples();
  renderLog();
}

function buildView() {
  const facts = {}, tiles = h("dl", { className: "tiles" });
  for (const key of ["step", "loss", "usefulFrames", "deviceBusy", "waiting", "padding", "timeLeft"]) {
    facts[key] = h("dd", {});
    tiles.append(h("div", {}, h("dt", {}, t(key)), facts[key]));
  }
  const made = {
    facts, title: h("h2", { dir: "ltr" }), state: h("p", { className: "hint" }), hint: h("p", { className: "hint" }, t("pauseHint")), line: h("p", { dir: "ltr", role: "status" }),
    pause: h("button", { type: "button" }, t("pause")), resume: h("button", { type: "button", className: "primary" }, t("resume")), stop: h("button", { type: "button" }, t("stop")),
    verdict: h("p", {}), account: h("tbody", {}), loss: h("div", {}), device: h("div", {}), alignment: h("div", {}), samples: h("div", {}), log: h("pre", { tabIndex: 0, dir: "ltr" }), logKey: "", sampleKey: "",
  };
  made.accountTable = h("table", { className: "account" }, h("caption", {}, t("account")), made.account);
  for (const kind of ["pause", "resume", "stop"]) action(made[kind], "click", () => act(kind));
  $("train-detail").replaceChildren(
    h("div", { className: "card" }, h("div", { className: "heading" }, h("div", {}, made.title, made.state), h("div", { className: "actions" }, made.pause, made.resume, made.stop)), made.line, made.hint, tiles),
    h("div", { className: "card" }, h("h3", {}, t("diagnosis")), made.verdict, made.accountTable),
    h("div", { className: "card charts" }, made.loss, made.device),
    h("div", { className: "card" }, h("h3", {}, t("samples")), made.samples),
    h("div", { className: "card" }, h("h3", {}, t("alignment")), made.alignment),
    h("details", { className: "card" }, h("summary", {}, t("log")), made.log),
  );
  return made;
}

function renderAccount() {
  const parts = Object.entries(detail.account ?? {}).filter(([, seconds]) => seconds > 0);
  const whole = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  view.accountTable.hidden = !parts.length;
  view.account.replaceChildren(...[...parts.sort((first, second) => second[1] - first[1]), ["whole", whole]].map(([part, seconds]) =>
    h("tr", {}, h("th", { scope: "row" }, t(`part_${part}`)), h("td", {}, seconds < 9.95 ? t("secondsShort", { count: number(seconds, 1) }) : duration(seconds)), h("td", {}, percent(seconds / whole, 1)))));
}

function renderAlignment() {
  const source = detail.alignment ? `api/run/alignment?${query({ name: selected, at: detail.alignment })}` : "";
  if (view.alignmentSource === source) return;
  view.alignmentSource = source;
  view.alignment.replaceChildren(source ? h("img", { src: source, alt: t("alignmentAlt"), className: "alignment" }) : h("p", { className: "hint" }, t("noAlignment")));
}

function renderLog() {
  const text = detail.log || (detail.is_from_terminal ? t("noLog") : "");
  if (view.log.textContent === text) return;
  const isAtEnd = view.log.scrollTop + view.log.clientHeight >= view.log.scrollHeight - 8;
  view.log.textContent = text;
  if (isAtEnd) view.log.scrollTop = view.log.scrollHeight;
}

function renderSamples() {
  const key = JSON.stringify([detail.samples, detail.has_voice, detail.is_from_terminal]);
  if (view.sampleKey === key) return;
  view.sampleKey = key;
  const rows = detail.samples.map(sampleRow);
  if (detail.has_voice && !detail.is_from_terminal) rows.unshift(recordingRow());
  view.samples.replaceChildren(...(rows.length ? rows : [h("p", { className: "hint" }, t("noSamples"))]));
}

const sampleUrl = (sample, step) => `api/run/sample?${query({ name: selected, language: sample.language, index: sample.index, step })}`;

function sampleRow(sample, position) {
  const [newest, ...older] = sample.steps;
  const id = `${selected}-${sample.language}-${sample.index}`;
  const parts = [player(t("newest", { step: number(newest) }), sampleUrl(sample, newest))];
  if (older.length) {
    const chosen = older.includes(compared[id]) ? compared[id] : older.at(-1);
    const audio = h("audio", { controls: true, preload: "none", src: sampleUrl(sample, chosen) });
    const choice = h("select", { "aria-label": t("compareWith"), onchange: () => { compared[id] = +choice.value; audio.src = sampleUrl(sample, choice.value); } },
      older.map((step) => h("option", { value: step, selected: step === chosen }, t("atStep", { step: number(step) }))));
    parts.push(h("figure", {}, h("figcaption", {}, t("compareWith"), " ", choice), audio));
  }
  return h("div", { className: "sample" }, h("p", { className: "hint" }, t("sentence", { number: number(position + 1), language: sample.language })), h("div", { className: "pair" }, parts));
}

const player = (caption, source) => h("figure", {}, h("figcaption", {}, caption), h("audio", { controls: true, preload: "none", src: source }));

// A held-out recording, and the same sentence by the newest voice, which is made when it is asked for.
function recordingRow() {
  const name = selected;
  const text = h("p", { className: "quote", dir: "auto" }, recordingOf[name]?.text ?? "…");
  const audio = h("audio", { controls: true, preload: "none" });
  const button = h("button", { type: "button", className: "small" }, t("hearIt"));
  const row = h("div", { className: "sample" }, text, h("div", { className: "pair" },
    player(t("recording"), `api/run/recording/audio?${query({ name })}`), h("figure", {}, h("figcaption", {}, t("sameSentence"), " ", button), audio)));
  action(button, "click", async () => {
    const { text: sentence } = recordingOf[name];
    const response = await request("speak", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text: sentence, voice: `${name}/voice` }) });
    const lines = (await response.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line)).filter((line) => line.type === "sentence");
    audio.src = URL.createObjectURL(wavBlob(lines.map((line) => pcmToFloat(line.audio)), lines[0].sample_rate));
    await audio.play();
  });
  getJson(`run/recording?${query({ name })}`).then((found) => { recordingOf[name] = found; text.textContent = found.text; }, () => { row.hidden = true; });
  return row;
}

// Record: read sentences, one after the other, with the keyboard; every take is checked before it is kept.
import { $, action, fillSelect, getJson, h, icon, notify, number, recall, remember, report, request, sendJson, t, upload } from "./ui.js";
import { Microphone } from "./audio.js";

const LONGEST_SECONDS = 35;
let microphone, corpus = null, names = [], skipped = 0, phase = "idle", takeUrl = null, timer = 0, report_ = null, heard = null, hearing = 0, levels = [];

export function setUp() {
  microphone = new Microphone(showLevel);
  $("record-corpus").addEventListener("change", () => open($("record-corpus").value).catch(report));
  $("record-new").addEventListener("click", () => { $("record-create").hidden = false; $("record-name").focus(); });
  $("record-cancel").addEventListener("click", () => { $("record-create").hidden = names.length > 0; });
  action($("record-create"), "submit", create);
  action($("record-toggle"), "click", toggle);
  action($("record-keep"), "click", keep);
  $("record-redo").addEventListener("click", redo);
  $("record-play").addEventListener("click", () => { const take = $("record-take"); take.currentTime = 0; take.play(); });
  $("record-skip").addEventListener("click", skip);
  document.addEventListener("keydown", onKey);
}

export async function show() {
  try { await load(); } catch (error) { report(error); }
}
export function hide() {
  clearTimeout(timer);
  microphone.close();
  if (phase === "recording") phase = "idle";
}
export function translate() { if (corpus) render(); }

async function load() {
  const { corpora } = await getJson("corpora");
  names = corpora.map((each) => each.name);
  $("record-create").hidden = names.length > 0;
  $("record-cancel").hidden = !names.length;
  const wanted = corpus?.name ?? recall("corpus");
  if (names.length) await open(names.includes(wanted) ? wanted : names[0]);
  else for (const id of ["record-bar", "record-booth", "record-kept"]) $(id).hidden = true;
}

async function open(name) {
  corpus = await getJson(`corpora/${name}`);
  remember("corpus", name);
  skipped = 0;
  phase = "idle";
  fillSelect($("record-corpus"), names.map((each) => [each, each]), name);
  render();
}

async function create() {
  const made = await sendJson("POST", "corpora", {
    name: $("record-name").value, language: $("record-language").value, speaker: $("record-speaker").value,
  });
  $("record-create").hidden = true;
  $("record-name").value = "";
  remember("corpus", made.name);
  corpus = null;
  await load();
  $("record-toggle").focus();
}

const isTouch = () => matchMedia("(pointer: coarse)").matches;
const prompt = () => corpus.prompts[skipped % Math.max(1, corpus.prompts.length)];

function render() {
  const { progress } = corpus;
  for (const id of ["record-bar", "record-booth"]) $(id).hidden = false;
  $("record-minutes").textContent = t("minutesValue", { minutes: number(progress.seconds / 60, 1) });
  $("record-pairs").textContent = t("pairsValue", { count: number(progress.covered_pairs), all: number(progress.all_pairs) });
  $("record-coverage").value = progress.covered_pairs / progress.all_pairs;
  $("record-prompt").textContent = prompt()?.text ?? t("allRecorded");
  $("record-prompt").lang = corpus.language;
  $("record-kept").hidden = !corpus.kept.length;
  $("record-count").textContent = number(progress.clips);
  $("record-list").replaceChildren(...corpus.kept.map(keptRow));
  showPhase();
}

function keptRow(clip) {
  const audio = h("audio", { preload: "none", src: `api/corpora/${corpus.name}/recordings/${clip.id}` });
  return h("li", {},
    h("button", { type: "button", className: "quiet icon", "aria-label": `${t("playIt")}: ${clip.text}`, onclick: () => { audio.currentTime = 0; audio.play(); } }, icon("play")),
    h("span", { className: "grow", dir: "auto", lang: corpus.language }, clip.text), h("span", { className: "hint" }, t("secondsShort", { count: number(clip.seconds, 1) })),
    h("button", { type: "button", className: "quiet icon", "aria-label": `${t("remove")}: ${clip.text}`, onclick: () => remove(clip).catch(report) }, icon("trash")), audio);
}

function showPhase() {
  const hasPrompt = Boolean(prompt());
  $("record-idle").hidden = phase === "review" || !hasPrompt;
  $("record-review").hidden = phase !== "review";
  $("record-skip").hidden = phase === "recording" || !hasPrompt;
  $("record-toggle").classList.toggle("on", phase === "recording");
  $("record-toggle").setAttribute("aria-pressed", String(phase === "recording"));
  $("record-hint").textContent = t(phase === "recording" ? (isTouch() ? "recordingTap" : "recordingHint") : phase === "checking" ? "checking" : isTouch() ? "recordTap" : "recordHint");
  if (phase === "review") showChecks();
}

function showChecks() {
  const items = report_.problems.map((kind) => h("li", { className: "bad" }, t(kind)));
  if (heard?.is_misread) items.push(h("li", { className: "bad" }, t("misread", { heard: heard.heard })));
  if (!items.length) items.push(h("li", { className: "good" }, t("ok")));
  if (heard?.heard && !heard.is_misread) items.push(h("li", { className: "note" }, t("heardOk", { heard: heard.heard })));
  else if (corpus.can_hear && heard === null && !report_.problems.includes("silent")) items.push(h("li", { className: "note" }, t("checking")));
  items.push(h("li", { className: "note" }, t("takeFacts", { seconds: number(report_.seconds, 1), level: number(report_.level_db), noise: number(report_.noise_db) })));
  $("record-checks").replaceChildren(...items);
}

function showError(message) {
  $("record-error").textContent = message ?? "";
  $("record-error").hidden = !message;
}

function showLevel(level) {
  const meter = $("record-meter");
  levels = [...levels.slice(-20), level];
  const fraction = (value) => Math.max(0, Math.min(1, 1 + value / 60));
  meter.style.setProperty("--level", fraction(level));
  meter.style.setProperty("--peak", fraction(Math.max(...levels)));
  meter.classList.toggle("hot", Math.max(...levels) > -1);
  meter.setAttribute("aria-valuenow", String(Math.round(Math.max(-60, level))));
}

async function toggle() {
  showError();
  if (phase === "recording") { await finish(); return; }
  if (phase !== "idle") return;
  try {
    await microphone.open();
  } catch (error) {
    showError(t("microphoneDenied", { reason: error.message }));
    return;
  }
  microphone.start();
  phase = "recording";
  clearTimeout(timer);
  timer = setTimeout(() => finish().catch(report), LONGEST_SECONDS * 1000);
  showPhase();
}

async function finish() {
  if (phase !== "recording") return;
  clearTimeout(timer);
  phase = "checking";
  showPhase();
  const blob = microphone.stop();
  try {
    report_ = await upload(`corpora/${corpus.name}/take`, blob, { prompt: prompt().id });
  } catch (error) {
    phase = "idle";
    showPhase();
    showError(error.message);
    return;
  }
  heard = null;
  URL.revokeObjectURL(takeUrl);
  takeUrl = URL.createObjectURL(blob);
  $("record-take").src = takeUrl;
  phase = "review";
  showPhase();
  $("record-review").focus(); // not a button: Enter keeps, R records again, as the buttons say
  if (corpus.can_hear && !report_.problems.includes("silent")) listen(++hearing);
}

async function listen(mine) {
  let answer = { heard: null, is_misread: false };
  try { answer = await (await request(`corpora/${corpus.name}/take/hear`, { method: "POST" })).json(); } catch { /* the other checks stand */ }
  if (mine === hearing && phase === "review") { heard = answer; showChecks(); }
}

async function keep() {
  corpus = await (await request(`corpora/${corpus.name}/take/keep`, { method: "POST" })).json();
  skipped = 0;
  back();
  notify(t("kept"));
}

function redo() { back(); }

function back() {
  hearing++;
  $("record-take").pause();
  phase = "idle";
  render();
  $("record-toggle").focus();
}

function skip() {
  if (phase === "recording" || phase === "checking") return;
  skipped++;
  back();
}

async function remove(clip) {
  if (!confirm(t("reallyRemove", { name: clip.text }))) return;
  corpus = await (await request(`corpora/${corpus.name}/recordings/${clip.id}`, { method: "DELETE" })).json();
  render();
}

// The position of the key counts, not its letter: R is R on a Persian keyboard too.
function onKey(event) {
  if ($("record").hidden || !corpus || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, audio, dialog, summary")) return;
  const isOnButton = Boolean(event.target.closest("button, a"));
  const keys = {
    Space: () => (isOnButton ? null : $("record-toggle")), Enter: () => (isOnButton || phase !== "review" ? null : $("record-keep")),
    KeyR: () => (phase === "review" ? $("record-redo") : null), KeyP: () => (phase === "review" ? $("record-play") : null),
    KeyS: () => $("record-skip"),
  };
  const button = keys[event.code]?.();
  if (!button || button.closest("[hidden]")) return;
  event.preventDefault();
  button.click();
}

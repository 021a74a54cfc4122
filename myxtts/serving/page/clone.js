// Clone: a reference is dropped or recorded, heard next to the original, measured, and saved as a speaker.
import { $, action, currentLanguage, fillSelect, h, icon, loadVoices, notify, percent, report, request, sendJson, t, upload, voiceOf } from "./ui.js";
import { Microphone } from "./audio.js";

let microphone, clone = null, isRecording = false, textIsOwn = false;

export function setUp() {
  microphone = new Microphone((level) => { $("clone-meter").style.setProperty("--level", Math.max(0, 1 + level / 60)); });
  const drop = $("clone-drop");
  for (const kind of ["dragover", "dragenter"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]).catch(report);
  });
  $("clone-file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (file) take(file).catch(report);
  });
  $("clone-voice").addEventListener("change", proposeText);
  action($("clone-record"), "click", toggleRecording);
  $("clone-text").addEventListener("input", () => { textIsOwn = true; });
  action($("clone-speak"), "click", speak);
  action($("clone-save"), "submit", save);
}

export async function show() {
  try { await fill(); } catch (error) { report(error); }
}
export function hide() {
  if (isRecording) { isRecording = false; showRecording(); }
  if (microphone.stream) microphone.close();
  for (const id of ["clone-original", "clone-audio"]) $(id).pause();
}
export function translate() { proposeText(); showRecording(); }

// The text in the language of the page if the voice has it; otherwise in one that it has.
function proposeText() {
  const languages = voiceOf($("clone-voice").value)?.languages ?? [];
  const has = (code) => languages.some((each) => each.split("-")[0] === code);
  if (!textIsOwn) $("clone-text").value = t("cloneText", {}, [currentLanguage(), "en", "fa"].find(has));
}

async function fill() {
  const voices = await loadVoices();
  const able = voices.filter((voice) => voice.can_clone);
  $("clone-impossible").hidden = able.length > 0;
  $("clone-work").hidden = !able.length;
  fillSelect($("clone-voice"), able.map((voice) => [voice.id, voice.id]));
  proposeText();
  const saved = voices.flatMap((voice) => voice.cloned.map((name) => ({ name, voice: voice.id })));
  $("clone-speakers").hidden = !saved.length;
  $("clone-list").replaceChildren(...saved.map(({ name, voice }) => h("li", {},
    h("b", { dir: "auto" }, name), h("span", { className: "hint" }, voice),
    h("button", { type: "button", className: "quiet icon end", "aria-label": `${t("remove")}: ${name}`, onclick: () => remove(name).catch(report) }, icon("trash")))));
}

async function toggleRecording() {
  if (isRecording) {
    isRecording = false;
    showRecording();
    const blob = microphone.stop();
    microphone.close();
    await take(blob);
    return;
  }
  try {
    await microphone.open();
  } catch (error) {
    throw new Error(t("microphoneDenied", { reason: error.message }));
  }
  microphone.start();
  isRecording = true;
  showRecording();
}

function showRecording() {
  const button = $("clone-record");
  button.classList.toggle("on", isRecording);
  button.lastElementChild.textContent = t(isRecording ? "stopIt" : "recordIt");
  $("clone-meter").hidden = !isRecording;
}

async function take(file) {
  $("clone-drop").setAttribute("aria-busy", "true");
  try {
    clone = await upload("clones", file, { voice: $("clone-voice").value });
    $("clone-original").src = `api/clones/${clone.id}/reference`;
    $("clone-audio").removeAttribute("src");
    $("clone-result").hidden = false;
    $("clone-similarity").hidden = true;
    await speak();
  } finally { $("clone-drop").removeAttribute("aria-busy"); }
}

async function speak() {
  const voice = voiceOf($("clone-voice").value);
  const answer = await sendJson("POST", `clones/${clone.id}/speech`, { text: $("clone-text").value, language: languageOf(voice) });
  $("clone-audio").src = `data:audio/wav;base64,${answer.audio}`;
  $("clone-audio").play().catch(() => { /* the browser waits for a click */ });
  const { value, is_independent: isIndependent } = answer.similarity;
  $("clone-similarity").hidden = value === null;
  if (value !== null) {
    $("clone-meter-value").value = value;
    $("clone-value").textContent = percent(Math.max(0, value));
    $("clone-method").textContent = t(isIndependent ? "byOther" : "byOwn");
  }
}

// The text's language, if the voice has it: Persian letters are not read as English.
function languageOf(voice) {
  const isPersian = /[\u0600-\u06ff]/.test($("clone-text").value);
  return voice.languages.find((code) => code.startsWith("fa") === isPersian) ?? voice.languages[0];
}

async function save() {
  const { name } = await sendJson("POST", `clones/${clone.id}/save`, { name: $("clone-name").value });
  $("clone-name").value = "";
  notify(t("speakerSaved", { name }));
  await fill();
}

async function remove(name) {
  if (!confirm(t("reallyRemove", { name }))) return;
  await request(`speakers/${encodeURIComponent(name)}`, { method: "DELETE" });
  await fill();
}

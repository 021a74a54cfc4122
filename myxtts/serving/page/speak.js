// Speak: a text is played while it is made; words are highlighted, clickable, and their pronunciation can be fixed.
import { $, action, clock, fillSelect, getJson, h, icon, languageName, loadVoices, notify, number, query, recall, remember, report, request, sendJson, t, voiceOf } from "./ui.js";
import { Player, drawWave, pcmToFloat } from "./audio.js";

let player, words = [], buttons = [], written = [], current = -1, chosen = -1, aborter = null, frame = 0, spoken = null, isLoaded = false;

export function setUp() {
  player = new Player(refresh);
  $("speak-text").value = recall("text") ?? "";
  // Not an `action`, which ignores a second press: a new text ends the one that is being spoken.
  $("speak-form").addEventListener("submit", (event) => { event.preventDefault(); speak(wish()).catch(report); });
  $("speak-text").addEventListener("input", followScript);
  $("speak-text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); $("speak-form").requestSubmit(); }
  });
  $("speak-stop").addEventListener("click", stop);
  $("speak-voice").addEventListener("change", () => { fillVoice(); followScript(); });
  $("speak-speed").addEventListener("input", showSpeed);
  $("speak-play").addEventListener("click", () => (player.isPlaying ? player.pause() : player.play()));
  $("speak-position").addEventListener("input", () => player.seek(+$("speak-position").value));
  $("speak-phonemes").addEventListener("change", () => $("speak-words").classList.toggle("plain", !$("speak-phonemes").checked));
  window.addEventListener("resize", refresh);
  setUpDialog();
}

export async function show() {
  try {
    const voices = await loadVoices();
    fillSelect($("speak-voice"), voices.map((voice) => [voice.id, voice.id]), isLoaded ? undefined : recall("voice"));
    isLoaded = true;
    fillVoice();
    followScript();
  } catch (error) { report(error); }
  refresh();
}
export function hide() { player.pause(); }
export function translate() { showSpeed(); if (isLoaded) fillVoice(); showWordBar(); refresh(); }

function fillVoice() {
  const voice = voiceOf($("speak-voice").value);
  if (!voice) return;
  fillSelect($("speak-language"), voice.languages.map((code) => [code, languageName(code)]));
  const names = voice.speakers.length ? voice.speakers : [""];
  fillSelect($("speak-speaker"), [...names, ...voice.cloned].map((name) => [name, name || t("defaultSpeaker")]));
}

// The language that the text is written in, if the chosen one has another script.
function followScript() {
  const select = $("speak-language"), text = $("speak-text").value;
  const [arabic, latin] = [/\p{Script=Arabic}/gu, /\p{Script=Latin}/gu].map((script) => text.match(script)?.length ?? 0);
  const isArabic = arabic > latin;
  if (!(arabic + latin) || isArabic === isArabicScript(select.value)) return;
  const other = [...select.options].find((option) => isArabicScript(option.value) === isArabic);
  if (other) select.value = other.value;
}
const isArabicScript = (code) => code !== "" && new Intl.Locale(code).maximize().script === "Arab";

function showSpeed() {
  $("speak-speed-value").textContent = `${number(+$("speak-speed").value, 2)}×`;
}

function wish() {
  return {
    text: $("speak-text").value, voice: $("speak-voice").value || null, language: $("speak-language").value || null,
    speaker: $("speak-speaker").value || null, speed: +$("speak-speed").value, seed: Math.max(0, Math.round(+$("speak-seed").value) || 0),
  };
}

async function speak(body) {
  if (!body.text.trim()) { notify(t("emptyText"), true); $("speak-text").focus(); return; }
  remember("text", body.text.slice(0, 5000));
  remember("voice", body.voice);
  aborter?.abort();
  aborter = new AbortController();
  const mine = aborter;
  $("speak-stop").hidden = false;
  try {
    const response = await request("speak", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: mine.signal,
    });
    reset(body);
    for await (const line of jsonLines(response.body)) {
      if (mine !== aborter) return;
      receive(line);
    }
  } finally {
    if (mine === aborter) {
      player.isComplete = true;
      $("speak-stop").hidden = true;
      refresh();
    }
  }
}

function reset(body) {
  player.reset();
  spoken = body;
  words = []; buttons = []; written = []; current = -1; chosen = -1;
  $("speak-words").replaceChildren();
  $("speak-words").lang = body.language ?? "";
  $("speak-result").hidden = false;
  $("speak-empty").hidden = true;
  for (const id of ["save-audio", "save-srt", "save-timings"]) { URL.revokeObjectURL($(id).href); $(id).removeAttribute("href"); }
  showWordBar();
}

async function* jsonLines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) yield JSON.parse(line);
  }
}

function receive(line) {
  if (line.type === "error") { notify(line.message, true); return; }
  if (line.type === "done") {
    offer("save-audio", player.blob(), "speech.wav");
    offer("save-srt", new Blob([line.srt], { type: "application/x-subrip" }), "speech.srt");
    offer("save-timings", new Blob([line.timings], { type: "application/json" }), "speech.json");
    return;
  }
  if (line.unknown) notify(t("unknown", { symbols: line.unknown }), true);
  addWords(line);
  const isFirst = !player.chunks.length;
  player.add(pcmToFloat(line.audio), line.sample_rate, line.start);
  if (isFirst) player.play(0);
}

function offer(id, blob, name) {
  $(id).href = URL.createObjectURL(blob);
  $(id).download = name;
}

// Words stand as they are written and are highlighted as they are spoken: "4 May" is "May fourth". A line without text continues
// a long sentence.
function addWords(line) {
  if (line.written.length) {
    written = line.written.map((text) => h("span", { className: "silent" }, text));
    $("speak-words").append(h("p", { dir: "auto" }, ...written.flatMap((each) => [each, " "])));
  }
  for (const word of line.words) {
    const [first, ...others] = written.slice(word.index, word.index + word.word.split(" ").length);
    if (!first) continue;
    const index = words.length;
    const button = h("button", { type: "button", className: "word", onclick: () => choose(index) },
      h("span", {}, [first, ...others].map((each) => each.textContent).join(" ")), h("small", { dir: "ltr", className: "ipa" }, word.phonemes));
    words.push(word); buttons.push(button);
    first.replaceWith(button);
    for (const each of others) { each.nextSibling?.remove(); each.remove(); }
  }
}

function choose(index) {
  chosen = index;
  buttons.forEach((button, each) => button.classList.toggle("chosen", each === index));
  player.seek(words[index].start, true);
  showWordBar();
}

function showWordBar() {
  const bar = $("speak-word");
  bar.hidden = chosen < 0;
  if (chosen < 0) return;
  const word = words[chosen];
  const canFix = voiceOf(spoken.voice)?.has_phonemes;
  bar.replaceChildren(
    h("b", { dir: "auto" }, word.word), h("span", { className: "ipa", dir: "ltr" }, `/${word.phonemes}/`),
    canFix ? h("button", { type: "button", className: "small", id: "fix-open", onclick: () => openDialog(word.spoken).catch(report) }, t("fixIt")) : h("span", { className: "hint" }, t("readsLetters")),
  );
}

function stop() {
  aborter?.abort();
  player.pause();
  player.isComplete = true;
  $("speak-stop").hidden = true;
}

function refresh() {
  cancelAnimationFrame(frame);
  const position = player.position;
  const play = $("speak-play");
  const name = player.isPlaying ? "pause" : "play";
  if (play.dataset.icon !== name) { play.replaceChildren(icon(name)); play.dataset.icon = name; }
  play.setAttribute("aria-label", t(player.isPlaying ? "pauseIt" : "play"));
  drawWave($("speak-wave"), player.chunks, Math.max(player.seconds, 0.5), position);
  const range = $("speak-position");
  range.max = player.seconds || 1;
  range.value = position;
  const text = `${clock(position)} / ${clock(player.seconds)}`;
  range.setAttribute("aria-valuetext", text);
  $("speak-time").textContent = text;
  const now = player.isPlaying || position ? words.findIndex((word) => position >= word.start && position < word.end) : -1;
  if (now !== current) {
    buttons[current]?.classList.remove("now");
    buttons[current]?.removeAttribute("aria-current");
    buttons[now]?.classList.add("now");
    buttons[now]?.setAttribute("aria-current", "true");
    current = now;
  }
  if (player.isPlaying) {
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isCalm) setTimeout(() => { frame = requestAnimationFrame(refresh); }, 200); else frame = requestAnimationFrame(refresh);
  }
}

// --- fixing a pronunciation ---

let reading = null;

function setUpDialog() {
  $("fix-cancel").addEventListener("click", () => $("fix-dialog").close());
  $("fix-word").addEventListener("change", showReading);
  action($("fix-convert"), "click", async () => {
    const found = await read($("fix-like").value);
    $("fix-phonemes").value = found.words.map((each) => each.phonemes).join("");
  });
  $("fix-like").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); $("fix-convert").click(); } });
  action($("fix-form"), "submit", () => save($("fix-phonemes").value));
  action($("fix-forget"), "click", () => save(""));
}

const read = (text) => getJson(`reading?${query({ text, voice: spoken.voice, language: spoken.language })}`);

async function openDialog(word) {
  reading = await read(word);
  player.pause();
  fillSelect($("fix-word"), reading.words.map((each, index) => [String(index), each.word]), "0");
  $("fix-which").hidden = reading.words.length < 2;
  $("fix-sounds").replaceChildren(...reading.sounds.map((sound) =>
    h("button", { type: "button", className: "sound ipa", onclick: () => insertSound(sound) }, /\p{M}/u.test(sound) ? `◌${sound}` : sound)));
  showReading();
  $("fix-dialog").showModal();
  $("fix-phonemes").focus();
}

function showReading() {
  const entry = reading.words[+$("fix-word").value];
  if (!entry) return;
  $("fix-note").textContent = t("fixNote", { word: entry.word, phonemes: entry.phonemes, language: spoken.language });
  $("fix-phonemes").value = entry.phonemes;
  $("fix-like").value = "";
  $("fix-forget").hidden = !entry.is_corrected;
  $("fix-error").hidden = true;
}

function insertSound(sound) {
  const input = $("fix-phonemes");
  const [start, end] = [input.selectionStart ?? input.value.length, input.selectionEnd ?? input.value.length];
  input.setRangeText(sound, start, end, "end");
  input.focus();
}

async function save(phonemes) {
  const entry = reading.words[+$("fix-word").value];
  try {
    await sendJson("PUT", "lexicon", { voice: spoken.voice, language: spoken.language, word: entry.word, phonemes });
  } catch (error) {
    $("fix-error").textContent = error.message;
    $("fix-error").hidden = false;
    return;
  }
  $("fix-dialog").close();
  notify(t(phonemes ? "fixSaved" : "fixForgotten", { word: entry.word, phonemes }));
  await speak(spoken);
}

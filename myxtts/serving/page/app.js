// The frame of the studio: which part is shown, the language, light or dark.
import { $, currentLanguage, recall, remember, setLanguage, t, translatePage } from "./ui.js";
import * as speak from "./speak.js";
import * as clone from "./clone.js";
import * as record from "./record.js";
import * as train from "./train.js";
import * as measure from "./measure.js";

const PARTS = { speak, clone, record, train, measure };
const THEMES = ["auto", "light", "dark"];
let shown = null;

function show(name, isFirst = false) {
  const part = name in PARTS ? name : "speak";
  if (shown !== part) {
    if (shown) PARTS[shown].hide?.();
    for (const id of Object.keys(PARTS)) $(id).hidden = id !== part;
    for (const link of document.querySelectorAll(".parts a")) {
      if (link.hash === `#${part}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    }
    shown = part;
    document.title = `${t(part)} – MyXTTS Studio`;
    PARTS[part].show();
    if (!isFirst) { $("main").focus({ preventScroll: true }); window.scrollTo(0, 0); }
  }
}

function applyLanguage() {
  translatePage();
  const button = $("language-button");
  button.textContent = t("otherLanguage");
  button.lang = currentLanguage() === "fa" ? "en" : "fa";
  if (shown) document.title = `${t(shown)} – MyXTTS Studio`;
  for (const part of Object.values(PARTS)) part.translate?.();
}

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  remember("theme", theme);
  window.dispatchEvent(new Event("resize")); // waveforms take the new colors
}

$("language-button").addEventListener("click", () => {
  setLanguage(currentLanguage() === "fa" ? "en" : "fa");
  applyLanguage();
});
$("theme-button").addEventListener("click", () => {
  const current = document.documentElement.dataset.theme;
  applyTheme(THEMES[(THEMES.indexOf(current) + 1) % THEMES.length]);
});
window.addEventListener("hashchange", () => {
  if (location.hash !== "#main") show(location.hash.slice(1));
});

applyTheme(recall("theme") ?? "auto");
translatePage();
for (const part of Object.values(PARTS)) part.setUp();
applyLanguage();
show(location.hash.slice(1), true);

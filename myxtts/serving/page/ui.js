// What all parts share: elements, texts in two languages, numbers and times, requests, messages.
import { STRINGS } from "./strings.js";

export const $ = (id) => document.getElementById(id);

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `icons.svg#${name}`);
  svg.append(use);
  return svg;
}

// --- preferences ---

const remembered = (name) => { try { return localStorage.getItem(`myxtts-${name}`); } catch { return null; } };
export function remember(name, value) {
  try { localStorage.setItem(`myxtts-${name}`, value); } catch { /* a browser without storage forgets */ }
}
export const recall = remembered;

let language = remembered("language") || ((navigator.language || "en").startsWith("fa") ? "fa" : "en");
export const currentLanguage = () => language;
export function setLanguage(code) {
  language = code;
  remember("language", code);
}

export function t(key, values = {}, code = language) {
  const text = STRINGS[code][key] ?? STRINGS.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

export function translatePage() {
  document.documentElement.lang = language;
  document.documentElement.dir = language === "fa" ? "rtl" : "ltr";
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const [attribute, key] of [["placeholder", "tPlaceholder"], ["aria-label", "tLabel"], ["title", "tTitle"]]) {
    const name = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    for (const element of document.querySelectorAll(`[data-${name}]`)) element.setAttribute(attribute, t(element.dataset[key]));
  }
}

const numberFormats = new Map();
export function number(value, digits = 0) {
  const key = `${language}${digits}`;
  if (!numberFormats.has(key)) {
    numberFormats.set(key, new Intl.NumberFormat(language, { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  return numberFormats.get(key).format(value);
}
export const percent = (value, digits = 0) =>
  new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: digits }).format(value);

export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${number(Math.floor(whole / 60))}:${new Intl.NumberFormat(language, { minimumIntegerDigits: 2 }).format(whole % 60)}`;
}

export function duration(seconds) {
  if (seconds < 90) return t("secondsShort", { count: number(Math.round(seconds)) });
  if (seconds < 5400) return t("minutesShort", { count: number(Math.round(seconds / 60)) });
  return t("hoursShort", { hours: number(Math.floor(seconds / 3600)), minutes: number(Math.round((seconds % 3600) / 60)) });
}

export function ago(unixSeconds) {
  const seconds = Date.now() / 1000 - unixSeconds;
  if (seconds < 60) return t("ago_now");
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  if (seconds < 5400) return format.format(-Math.round(seconds / 60), "minute");
  if (seconds < 129600) return format.format(-Math.round(seconds / 3600), "hour");
  return format.format(-Math.round(seconds / 86400), "day");
}

const languageNames = {};
export function languageName(code) {
  languageNames[language] ??= new Intl.DisplayNames([language], { type: "language" });
  try { return languageNames[language].of(code); } catch { return code; }
}

// --- requests ---

export class RequestError extends Error {}

export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(`api/${path}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(t("connectionLost"));
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new RequestError(body?.error?.message ?? `${response.status} ${response.statusText}`);
}
export const getJson = async (path) => (await request(path)).json();
export async function sendJson(method, path, body) {
  const response = await request(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  return response.json();
}
export async function upload(path, file, fields = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", file, "take.wav");
  return (await request(path, { method: "POST", body: form })).json();
}
export const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== "")).toString();

// --- messages ---

let noticeTimer;
export function notify(message, isError = false) {
  const notice = $("notice");
  notice.textContent = message;
  notice.className = isError ? "shown error" : "shown";
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { notice.className = ""; }, isError ? 9000 : 4000);
}
export const report = (error) => { if (error.name !== "AbortError") notify(error.message, true); };

// An action of a button or form: it is disabled meanwhile, and errors are shown.
export function action(element, kind, work) {
  element.addEventListener(kind, async (event) => {
    event.preventDefault();
    const button = kind === "submit" ? element.querySelector("button:not([type])") : element;
    if (button?.getAttribute("aria-busy") === "true") return;
    button?.setAttribute("aria-busy", "true");
    try { await work(event); } catch (error) { report(error); } finally { button?.removeAttribute("aria-busy"); }
  });
}

export function fillSelect(select, options, chosen) {
  const value = chosen ?? select.value;
  select.replaceChildren(...options.map(([id, label]) => h("option", { value: id }, label)));
  if (options.some(([id]) => id === value)) select.value = value;
}

// --- voices ---

let voices = [];
export async function loadVoices() {
  voices = (await getJson("voices")).voices;
  return voices;
}
export const voiceOf = (id) => voices.find((voice) => voice.id === id);

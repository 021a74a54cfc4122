// Sound in the browser: a player of speech that is still being made, a waveform, the microphone, wav files.

export function wavBlob(parts, sampleRate) {
  const samples = parts.reduce((sum, part) => sum + part.length, 0);
  const view = new DataView(new ArrayBuffer(44 + samples * 2));
  const text = (offset, value) => [...value].forEach((letter, index) => view.setUint8(offset + index, letter.charCodeAt(0)));
  text(0, "RIFF"); view.setUint32(4, 36 + samples * 2, true); text(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, sampleRate, true); view.setUint32(28, sampleRate * 2, true);
  view.setUint16(32, 2, true); view.setUint16(34, 16, true); text(36, "data"); view.setUint32(40, samples * 2, true);
  let offset = 44;
  for (const part of parts) {
    for (const sample of part) {
      view.setInt16(offset, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
      offset += 2;
    }
  }
  return new Blob([view], { type: "audio/wav" });
}

export function pcmToFloat(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  return Float32Array.from(new Int16Array(bytes.buffer), (value) => value / 32768);
}

let shared;
export function audioContext() {
  shared ??= new AudioContext();
  return shared;
}

// Plays sentences one after the other while more of them arrive; can pause and seek.
export class Player {
  constructor(onChange) {
    this.reset();
    this.onChange = onChange;
  }

  reset() {
    this.pause();
    this.chunks = [];
    this.seconds = 0;
    this.sampleRate = 24000;
    this.offset = 0;
    this.isComplete = false;
  }

  get isPlaying() { return this.startedAt !== null && this.startedAt !== undefined; }

  get position() {
    if (!this.isPlaying) return this.offset;
    return Math.min(this.seconds, Math.max(0, audioContext().currentTime - this.startedAt));
  }

  add(samples, sampleRate, start) {
    this.sampleRate = sampleRate;
    const buffer = audioContext().createBuffer(1, samples.length, sampleRate);
    buffer.copyToChannel(samples, 0);
    const chunk = { start, buffer, samples };
    this.chunks.push(chunk);
    this.seconds = start + samples.length / sampleRate;
    if (this.isPlaying) {
      // The sentence came too late: everything after it is heard that much later.
      const late = audioContext().currentTime - (this.startedAt + start);
      if (late > 0) this.startedAt += late + 0.02;
      this.#schedule(chunk);
    }
    this.onChange();
  }

  async play(from = this.position) {
    this.pause();
    await audioContext().resume();
    const atEnd = this.isComplete && from >= this.seconds - 0.05;
    this.startedAt = audioContext().currentTime + 0.03 - (atEnd ? 0 : from);
    for (const chunk of this.chunks) this.#schedule(chunk);
    this.onChange();
  }

  pause() {
    if (this.isPlaying) this.offset = this.position;
    this.startedAt = null;
    for (const source of this.sources ?? []) { source.onended = null; source.stop(); }
    this.sources = [];
    this.onChange?.();
  }

  seek(seconds, plays = this.isPlaying) {
    this.pause();
    this.offset = seconds;
    if (plays) this.play(seconds); else this.onChange();
  }

  #schedule(chunk) {
    const context = audioContext();
    const begin = this.startedAt + chunk.start;
    const skip = Math.max(0, context.currentTime - begin);
    if (skip >= chunk.buffer.duration) return;
    const source = new AudioBufferSourceNode(context, { buffer: chunk.buffer });
    source.connect(context.destination);
    source.start(Math.max(begin, context.currentTime), skip);
    this.sources.push(source);
    source.onended = () => {
      this.sources = this.sources.filter((each) => each !== source);
      if (this.isComplete && this.isPlaying && chunk === this.chunks.at(-1)) {
        this.pause();
        this.offset = this.seconds;
        this.onChange();
      }
    };
  }

  blob() { return wavBlob(this.chunks.map((chunk) => chunk.samples), this.sampleRate); }
}

// Peaks of the chunks as bars; what has been heard is in the accent color.
export function drawWave(canvas, chunks, seconds, position) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  const [played, ahead] = [style.getPropertyValue("--accent"), style.getPropertyValue("--wave")];
  const step = 4, count = Math.floor(width / step);
  const loudest = Math.max(0.1, ...chunks.map((chunk) => Math.max(...peaksOf(chunk))));
  for (let bar = 0; bar < count; bar++) {
    const from = (bar / count) * seconds, to = ((bar + 1) / count) * seconds;
    const size = Math.max(2, (peakBetween(chunks, from, to) / loudest) * (height - 4));
    context.fillStyle = from < position ? played : ahead;
    context.beginPath();
    context.roundRect(bar * step + 0.5, (height - size) / 2, 2.5, size, 1.25);
    context.fill();
  }
}

const peakCache = new WeakMap();
const PEAKS_PER_SECOND = 100;
function peaksOf(chunk) {
  if (!peakCache.has(chunk)) {
    const block = Math.max(1, Math.round(chunk.buffer.sampleRate / PEAKS_PER_SECOND));
    const peaks = [];
    for (let first = 0; first < chunk.samples.length; first += block) {
      let peak = 0;
      for (let index = first; index < Math.min(first + block, chunk.samples.length); index++) peak = Math.max(peak, Math.abs(chunk.samples[index]));
      peaks.push(peak);
    }
    peakCache.set(chunk, peaks);
  }
  return peakCache.get(chunk);
}
function peakBetween(chunks, from, to) {
  let peak = 0;
  for (const chunk of chunks) {
    if (chunk.start > to || chunk.start + chunk.buffer.duration < from) continue;
    const peaks = peaksOf(chunk);
    const first = Math.max(0, Math.floor((from - chunk.start) * PEAKS_PER_SECOND));
    const last = Math.min(peaks.length - 1, Math.floor((to - chunk.start) * PEAKS_PER_SECOND));
    for (let index = first; index <= last; index++) peak = Math.max(peak, peaks[index]);
  }
  return Math.min(1, peak);
}

// The microphone: unprocessed samples, because noise suppression and automatic gain change a voice.
export class Microphone {
  constructor(onLevel) {
    this.onLevel = onLevel;
    this.parts = null;
  }

  async open() {
    if (this.stream) return;
    const wish = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    if (!navigator.mediaDevices) throw new Error("no microphone");
    this.stream = await navigator.mediaDevices.getUserMedia({ audio: wish });
    this.context = new AudioContext();
    await this.context.audioWorklet.addModule("capture.js");
    this.node = new AudioWorkletNode(this.context, "capture", { numberOfOutputs: 0 });
    this.node.port.onmessage = ({ data }) => this.#take(data);
    this.context.createMediaStreamSource(this.stream).connect(this.node);
    await this.context.resume();
  }

  #take(block) {
    if (this.parts) this.parts.push(block);
    let peak = 0;
    for (const sample of block) peak = Math.max(peak, Math.abs(sample));
    this.onLevel(20 * Math.log10(Math.max(peak, 1e-4)));
  }

  start() { this.parts = []; }

  stop() {
    const parts = this.parts ?? [];
    this.parts = null;
    return wavBlob(parts, this.context.sampleRate);
  }

  close() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.context?.close();
    this.stream = this.context = this.node = this.parts = null;
    this.onLevel(-80);
  }
}

/* global AudioWorkletProcessor, registerProcessor, sampleRate -- of the scope of worklets */

/** What realtime sessions take: samples a second. */
const RATE = 24_000
/** A tenth of a second. */
const CHUNK = RATE / 10

/** Makes 16-bit samples of what a microphone records, and posts them a tenth of a second at a time. */
class Microphone extends AudioWorkletProcessor {
  #chunk = new Int16Array(CHUNK)
  #filled = 0
  /** Where the next sample lies in what comes, in samples of the microphone. */
  #at = 0

  process([[samples] = []]) {
    if (!samples) return true
    for (; this.#at < samples.length; this.#at += sampleRate / RATE) {
      const loudness = Math.max(-1, Math.min(1, samples[Math.floor(this.#at)]))
      this.#chunk[this.#filled++] = loudness * 0x7fff
      if (this.#filled === CHUNK) this.#post()
    }
    this.#at -= samples.length
    return true
  }

  #post() {
    this.port.postMessage(this.#chunk.buffer, [this.#chunk.buffer])
    this.#chunk = new Int16Array(CHUNK)
    this.#filled = 0
  }
}

registerProcessor('microphone', Microphone)

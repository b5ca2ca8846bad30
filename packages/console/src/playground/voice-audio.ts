/** Samples a second of what realtime sessions send, unless their operator says otherwise. */
const RATE = 24_000

/**
 * The microphone, as 16-bit samples of a realtime session, until `audio` is closed.
 *
 * @throws Error in words for whoever wants to speak.
 */
export async function openMicrophone(audio: AudioContext, heard: (samples: ArrayBuffer) => void): Promise<() => void> {
  const { mediaDevices } = navigator as { mediaDevices?: MediaDevices }
  if (!mediaDevices) throw new Error('The browser gives the microphone to pages with HTTPS or on localhost alone.')
  const stream = await mediaDevices
    .getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true } })
    .catch((error: unknown) => Promise.reject(new Error(whyRefused(error))))
  const close = (): void => stream.getTracks().forEach((track) => track.stop())
  try {
    await audio.audioWorklet.addModule(new URL('./microphone.worklet.js', import.meta.url).href)
    const microphone = new AudioWorkletNode(audio, 'microphone', { numberOfOutputs: 0, channelCount: 1 })
    microphone.port.addEventListener('message', ({ data }: MessageEvent<ArrayBuffer>) => heard(data))
    microphone.port.start()
    audio.createMediaStreamSource(stream).connect(microphone)
    return close
  } catch (error) {
    close() // E.g. because somebody has stopped before the browser gave the microphone.
    throw error
  }
}

function whyRefused(error: unknown): string {
  const name = error instanceof DOMException ? error.name : ''
  if (name === 'NotAllowedError') {
    return 'The browser does not let this page use the microphone. Allow it in the settings of the page, and try again.'
  }
  if (name === 'NotFoundError') return 'There is no microphone.'
  return 'The microphone cannot be used: another program may have it.'
}

/** Plays what an agent says, one piece after the other. */
export class Speaker {
  readonly #audio: AudioContext
  readonly #playing = new Set<AudioBufferSourceNode>()
  #next = 0

  constructor(audio: AudioContext) {
    this.#audio = audio
  }

  /** @param base64 - 16-bit samples. */
  play(base64: string): void {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
    const samples = new Int16Array(bytes.buffer, 0, bytes.length >> 1)
    if (samples.length === 0) return
    const buffer = this.#audio.createBuffer(1, samples.length, RATE)
    buffer.getChannelData(0).set(Float32Array.from(samples, (sample) => sample / 0x8000))
    const source = this.#audio.createBufferSource()
    source.buffer = buffer
    source.connect(this.#audio.destination)
    source.addEventListener('ended', () => this.#playing.delete(source))
    this.#playing.add(source)
    this.#next = Math.max(this.#next, this.#audio.currentTime)
    source.start(this.#next)
    this.#next += buffer.duration
  }

  /** Somebody has begun to speak: what is left is not played. */
  interrupt(): void {
    for (const source of this.#playing) source.stop()
    this.#playing.clear()
    this.#next = 0
  }
}

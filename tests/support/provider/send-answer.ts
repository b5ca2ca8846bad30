import type { ServerResponse } from 'node:http'
import type { ClientWatch } from './client-watch.ts'
import { breakOff, deliverStream } from './deliver-stream.ts'
import type { JsonObject } from './json-object.ts'
import type { Framing, HttpAnswer, Part } from './turn.ts'
import { placeMarked, type WireAnswer } from './wire.ts'

type Answer = { readonly answer: WireAnswer; readonly parts: readonly Part[]; readonly client: ClientWatch }

export async function sendStream(response: ServerResponse, { answer, parts, client }: Answer): Promise<void> {
  const steps = placeMarked(answer.steps, parts)
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' })
  response.flushHeaders()
  await deliverStream(response, { steps, framing: framingOf(parts), client })
}

/** One JSON object: stops are passed before it, a cut leaves the body empty, raw bytes take its place. */
export async function sendWhole(response: ServerResponse, { answer, parts, client }: Answer): Promise<void> {
  const rawBytes: Buffer[] = []
  for (const step of placeMarked(answer.steps, parts)) {
    if (step.step === 'hold') await step.gate.pass(client.signal)
    if (step.step === 'raw') rawBytes.push(step.bytes)
    if (step.step === 'cut') {
      response.writeHead(200, JSON_HEADERS).flushHeaders()
      return breakOff(response, step.how, client)
    }
  }
  if (rawBytes.length > 0) response.writeHead(200, JSON_HEADERS).end(Buffer.concat(rawBytes))
  else sendJson(response, answer.whole.status, answer.whole.body)
}

export function sendHttp(response: ServerResponse, { status, headers, body }: HttpAnswer): void {
  response.writeHead(status, headers).end(body)
}

export function sendJson(response: ServerResponse, status: number, body: JsonObject): void {
  if (response.headersSent) response.destroy()
  else response.writeHead(status, JSON_HEADERS).end(JSON.stringify(body))
}

const JSON_HEADERS = { 'content-type': 'application/json' }

const DEFAULT_FRAMING: Framing = { newline: '\n', eventLines: true, spaceAfterColon: true, writes: 'each' }

function framingOf(parts: readonly Part[]): Framing {
  const told = parts.flatMap((part) => (part.part === 'framing' ? [part.framing] : []))
  return Object.assign({}, DEFAULT_FRAMING, ...told)
}

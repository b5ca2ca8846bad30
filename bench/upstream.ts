/**
 * A model provider for measuring: it answers `POST …/responses` with bytes made beforehand, over `node:net`, so that
 * it costs far less than the server in front of it.
 * Run: PORT=9100 node bench/upstream.ts. `PUT /answering` with an `Answering` object changes what it answers.
 */
import { createServer, type Socket } from 'node:net'
import { precompute, type Answer, type Answers } from './answers.ts'
import { followParent } from './follow-parent.ts'
import { MarkCounter } from './mark-counter.ts'
import { play, type ProviderRequest, serveRequests } from './provider-socket.ts'
import type { Answering } from './scenarios.ts'

let answering: Answering = { rounds: [], deltas: 50, paceMs: 0, holdAfter: null }
let answers: Answers = precompute(answering)

const outputs = new MarkCounter('"function_call_output"')

function answer(socket: Socket, { line, body }: ProviderRequest): void {
  if (line.startsWith('PUT /answering ')) {
    answering = JSON.parse(body.toString()) as Answering
    answers = precompute(answering)
    socket.write('HTTP/1.1 204 No Content\r\n\r\n')
  } else if (/^POST \S*\/responses /.test(line)) {
    send(socket, answerTo(body))
  } else {
    socket.write('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n')
  }
}

/** As many rounds are over as the request holds outputs for. */
function answerTo(body: Buffer): Answer {
  outputs.reset()
  outputs.feed(body)
  let left = outputs.count
  const round = answering.rounds.findIndex(({ length }) => (left -= length) < 0)
  return answers.rounds[round] ?? answers.text
}

/** The first write holds the first delta too. */
function send(socket: Socket, { writes }: Answer): void {
  const { paceMs, holdAfter } = answering
  play(socket, holdAfter === null ? writes : writes.slice(0, holdAfter), { paceMs })
}

createServer((socket) => serveRequests(socket, answer)).listen({
  port: Number(process.env['PORT'] ?? 9100),
  host: '127.0.0.1',
  backlog: 4096,
})
followParent()

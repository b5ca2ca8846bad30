/**
 * The provider of the endurance test: each request is answered, or failed, as the user's message says. Faults are those
 * of real providers: refusals, garbage, connections that break, and silence.
 */
import { createServer, type Socket } from 'node:net'
import { precompute, precomputeCalls } from '../answers.ts'
import { followParent } from '../follow-parent.ts'
import { play, type ProviderRequest, serveRequests } from '../provider-socket.ts'
import { type Behaviour, messageOf, readMessage } from './plans.ts'

const PACE_MS = 60
const ANSWER = precompute({ rounds: [], deltas: 40, paceMs: PACE_MS, holdAfter: null }).text.writes
const BURST = precompute({ rounds: [], deltas: 500, paceMs: 0, holdAfter: null }).text.writes
const TOOL_CALL = precomputeCalls([{ name: 'look_up', arguments: '{"what":"soak"}' }], 0).writes

/** Runs whose first request was refused and whose second is answered. */
const refusedOnce = new Set<string>()
const sockets = new Set<Socket>()

function answer(socket: Socket, { line, body }: ProviderRequest): void {
  if (line.startsWith('DELETE /connections ')) return closeOthers(socket)
  const text = body.toString()
  const message = readMessage(text)
  if (!message) return refuse(socket, '400 Bad Request')
  BEHAVIOURS[message.behaviour](socket, { run: message.run, isSecondTurn: text.includes('"function_call_output"') })
}

type Asked = { readonly run: string; readonly isSecondTurn: boolean }

const answerSlowly = (socket: Socket): void => play(socket, ANSWER, { paceMs: PACE_MS })

const BEHAVIOURS: Readonly<Record<Behaviour, (socket: Socket, asked: Asked) => void>> = {
  answer: answerSlowly,
  burst: (socket) => play(socket, BURST, { paceMs: 0 }),
  tool: (socket, { isSecondTurn }) => (isSecondTurn ? answerSlowly(socket) : play(socket, TOOL_CALL, { paceMs: 0 })),
  nested: (socket, { run, isSecondTurn }) =>
    isSecondTurn ? answerSlowly(socket) : play(socket, askHelper(run), { paceMs: 0 }),
  rate_limited_once: (socket, { run }) => {
    if (refusedOnce.delete(run)) return answerSlowly(socket)
    refusedOnce.add(run)
    refuse(socket, '429 Too Many Requests')
  },
  rate_limited: (socket) => refuse(socket, '429 Too Many Requests'),
  unauthorized: (socket) => refuse(socket, '401 Unauthorized'),
  server_error: (socket) => refuse(socket, '500 Internal Server Error'),
  garbage: (socket) => whole(socket, 'text/event-stream', GARBAGE),
  web_page: (socket) => whole(socket, 'text/html', '<!doctype html><title>Please sign in</title>\n\n'),
  cut: (socket) => play(socket, ANSWER.slice(0, 10), { paceMs: PACE_MS, onLast: () => socket.destroy() }),
  stall: (socket) => play(socket, ANSWER.slice(0, 4), { paceMs: PACE_MS }),
  no_answer: () => {},
}

const GARBAGE = 'event: response.created\ndata: {"type":"response.created",\n\n'

function askHelper(run: string): readonly Buffer[] {
  const message = messageOf('answer', `${run}.helper`)
  const call = { recipient_agent: 'Helper', message, additional_instructions: '' }
  return precomputeCalls([{ name: 'send_message', arguments: JSON.stringify(call) }], 0).writes
}

function refuse(socket: Socket, status: string): void {
  const body = JSON.stringify({ error: { message: 'Refused.', type: 'soak', code: null } })
  const head = [`HTTP/1.1 ${status}`, 'content-type: application/json', 'retry-after: 0']
  socket.write(`${[...head, `content-length: ${body.length}`].join('\r\n')}\r\n\r\n${body}`)
}

function whole(socket: Socket, contentType: string, body: string): void {
  socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${contentType}\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
}

function closeOthers(asking: Socket): void {
  for (const socket of sockets) if (socket !== asking) socket.destroy()
  asking.end('HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n')
}

const server = createServer((socket) => {
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
  serveRequests(socket, answer)
})
server.listen({ port: Number(process.env['PORT'] ?? 9100), host: '127.0.0.1', backlog: 4096 })
followParent()

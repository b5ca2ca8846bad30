/**
 * The floor of the comparison: plain `node:http`, the provider's bytes piped through untouched.
 * Run: PORT=8100 OPENAI_BASE_URL=http://127.0.0.1:9100/v1 node bench/byte-proxy.ts
 */
import { Agent, createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { followParent } from './follow-parent.ts'

const upstream = `${process.env['OPENAI_BASE_URL'] ?? 'http://127.0.0.1:9100/v1'}/responses`
const agent = new Agent({ keepAlive: true, maxFreeSockets: 4096 })
const SSE = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' }

type Asked = { readonly message: string; readonly chat_history?: readonly unknown[] }

async function proxy(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { message, chat_history: history = [] } = (await json(request)) as Asked
  const instructions = 'You are a helpful assistant. Answer briefly.'
  const input = [...history, { role: 'user', content: message }]
  const body = JSON.stringify({ model: 'gpt-5-mini', instructions, input, stream: true })
  const headers = {
    authorization: `Bearer ${process.env['OPENAI_API_KEY'] ?? ''}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  }
  const asking = httpRequest(upstream, { agent, method: 'POST', headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, SSE)
    answer.pipe(response)
  })
  asking.on('error', () => response.destroy())
  response.on('close', () => {
    if (!response.writableFinished) asking.destroy()
  })
  asking.end(body)
}

const server = createServer((request, response) => {
  if (request.method === 'POST') proxy(request, response).catch(() => response.destroy())
  else response.writeHead(404).end()
})
server.listen({ port: Number(process.env['PORT'] ?? 8100), host: '127.0.0.1', backlog: 4096 })
followParent()

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { type IncomingMessage, request, type RequestOptions } from 'node:http'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('./server.test-program.ts', import.meta.url))

export type Asked = {
  readonly method?: string
  readonly path: string
  readonly body?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

export type Cost = { readonly status: number; readonly answerBytes: number; readonly cpuMs: number }

export type MeasuredServer = {
  readonly integrationId: string
  /** Sends a request and says what all threads of the server's process have computed meanwhile. */
  ask(asked: Asked): Promise<Cost>
  /** What this machine takes now, in milliseconds of one core, for a fixed piece of reading: a measure of its speed. */
  readingMs(): Promise<number>
  /** The most memory that the process ever had. */
  peakMiB(): Promise<number>
  close(): Promise<void>
}

/** Starts a server in a process of its own, whose processor time is that of the requests it is sent. */
export async function startMeasured(kind: 'agency' | 'agui' | 'platform'): Promise<MeasuredServer> {
  const child = fork(PROGRAM, [kind], { execArgv: ['--conditions=@bureau/source'], env: { PATH: process.env['PATH'] } })
  const hear = async <Message>(): Promise<Message> => (await once(child, 'message'))[0] as Message
  type Served = { port: number; headers?: Record<string, string>; integrationId?: string }
  const { port, headers: own = {}, integrationId = '' } = await hear<Served>()
  const usage = async (): Promise<{ cpuMs: number; peakMiB: number }> => {
    child.send('usage')
    return hear()
  }
  return {
    integrationId,
    readingMs: async () => {
      child.send('reading')
      return hear()
    },
    peakMiB: async () => (await usage()).peakMiB,
    ask: async ({ method = 'POST', path, body = '', headers = {} }) => {
      const { cpuMs: before } = await usage()
      const json = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }
      const given = {
        host: '127.0.0.1',
        port,
        method,
        path,
        agent: false as const,
        headers: { ...json, ...own, ...headers },
      }
      const answer = await send(given, body)
      return { ...answer, cpuMs: (await usage()).cpuMs - before }
    },
    close: async () => {
      const exited = once(child, 'exit')
      child.kill()
      await exited
    },
  }
}

/** Status 0: the connection was cut while the body was still being sent. */
async function send(given: RequestOptions, body: string | Buffer): Promise<Omit<Cost, 'cpuMs'>> {
  const sent = request(given)
  const answered = new Promise<IncomingMessage | undefined>((resolve) => {
    sent.once('response', resolve)
    sent.on('error', () => resolve(undefined))
  })
  sent.end(body)
  const response = await answered
  let answerBytes = 0
  for await (const chunk of response ?? []) answerBytes += (chunk as Buffer).length
  return { status: response?.statusCode ?? 0, answerBytes }
}

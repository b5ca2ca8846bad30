import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/** A span as the collector has received it, its attributes as plain values. */
type ReceivedSpan = {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly kind: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly status: { readonly code?: number; readonly message?: string }
  readonly resource: Readonly<Record<string, unknown>>
}

type OtlpCollector = {
  readonly url: string
  /** Everything received so far. */
  readonly spans: readonly ReceivedSpan[]
  readonly close: () => Promise<void>
}

/** A collector on a loopback port that takes traces by OTLP over HTTP, as JSON. */
export async function startOtlpCollector(): Promise<OtlpCollector> {
  const spans: ReceivedSpan[] = []
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const known = request.url === '/v1/traces'
      if (known) spans.push(...spansOf(body as ExportRequest))
      response.writeHead(known ? 200 : 404, { 'content-type': 'application/json' }).end('{}')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async (): Promise<void> => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  return { url: `http://127.0.0.1:${port}`, spans, close }
}

type Value = Readonly<Record<string, unknown>>
type Attribute = { readonly key: string; readonly value: Value }
type ExportedSpan = Omit<ReceivedSpan, 'attributes' | 'resource'> & { readonly attributes: readonly Attribute[] }
type ExportRequest = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] }
    readonly scopeSpans: readonly { readonly spans: readonly ExportedSpan[] }[]
  }[]
}

function spansOf({ resourceSpans }: ExportRequest): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        ...span,
        attributes: plain(span.attributes),
        resource: plain(resource.attributes),
      })),
    ),
  )
}

function plain(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plainValue(value)]))
}

function plainValue(value: Value): unknown {
  const [kind, content] = Object.entries(value)[0] ?? ['', null]
  if (kind === 'intValue') return Number(content)
  if (kind === 'arrayValue') return (content as { values: Value[] }).values.map(plainValue)
  return content
}

import { json } from 'node:stream/consumers'
import { startHttpServer } from './http-server.ts'

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
}

/** A collector that takes traces by OTLP over HTTP, as JSON, until the test has ended. */
export async function startOtlpCollector(): Promise<OtlpCollector> {
  const spans: ReceivedSpan[] = []
  const url = await startHttpServer((request, response) => {
    void json(request).then((body) => {
      const known = request.url === '/v1/traces'
      if (known) spans.push(...spansOf(body as ExportRequest))
      response.writeHead(known ? 200 : 404, { 'content-type': 'application/json' }).end('{}')
    })
  })
  return { url, spans }
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

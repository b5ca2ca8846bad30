import { ROUTES } from '@bureau/platform/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { bigShapes, HUGE, kept, type Shapes } from './hostile-shapes.ts'
import { type Asked, type Cost, type MeasuredServer, startMeasured } from './measured-server.ts'

/** Processor time that a request may take on one core of an ordinary machine, whatever it is. */
const MAX_CPU_MS = 300
/** What the piece of reading that tells a machine's speed takes on that one. */
const ORDINARY_READING_MS = 50
/** For what is no refusal but work: a run over a hundred thousand items is one, and its answer repeats them. */
const MAX_RUN_CPU_MS = 900
const maxCpuMs = (status: number): number => (status === 200 ? MAX_RUN_CPU_MS : MAX_CPU_MS)
const MAX_ERROR_BYTES = 65_536

const BIG = kept(bigShapes())
/** For routes that read 256 KiB. */
const { texts, ...others } = bigShapes(1 / 16)
const SMALL = kept({
  texts: texts!,
  names: others['many names']!,
  levels: others['50 levels']!,
  text: others['a long text']!,
})

type Place = {
  readonly path: string
  readonly around: (value: string) => string
  readonly method?: string
  readonly shapes?: Shapes
}

/**
 * What a request costs on an ordinary machine: a host that is shared can be slower for minutes. Other garbage to collect, code to
 * compile, or memory that a virtual machine has to ask its host for, may fall into a request's time: the least of 21 counts.
 */
async function costOf(server: MeasuredServer, asked: Asked): Promise<Cost> {
  let least = await server.ask(asked)
  for (let again = 0; again < 20 && least.cpuMs > maxCpuMs(least.status); again++) {
    const cost = await server.ask(asked)
    const slowness = Math.max(1, (await server.readingMs()) / ORDINARY_READING_MS)
    const cpuMs = cost.cpuMs / slowness
    if (cpuMs < least.cpuMs) least = { ...cost, cpuMs }
  }
  return least
}

/** What is wrong with the costs of all shapes at one place: nothing, it is hoped. */
async function excesses(server: MeasuredServer, { path, around, method = 'POST' }: Place, shapes: Shapes) {
  const found: object[] = []
  for (const [shape, make] of Object.entries(shapes)) {
    const { status, cpuMs, answerBytes } = await costOf(server, { method, path, body: around(make()) })
    const isClear = status < 500 && (status < 400 || answerBytes <= MAX_ERROR_BYTES)
    if (cpuMs > maxCpuMs(status) || !isClear) found.push({ shape, status, cpuMs, answerBytes })
  }
  return found
}

/** A body with the value in one of its fields, or in a field of a field. */
function fields(path: string, base: Readonly<Record<string, string>>, names: readonly string[]): [string, Place][] {
  return names.map((name) => {
    const around = (value: string): string => {
      const [outer = '', ...inner] = name.split('.')
      const nested = inner.reduceRight((json, key) => `{"${key}":${json}}`, value)
      const members = Object.entries({ ...base, [outer]: nested })
      return `{${members.map(([key, json]) => `"${key}":${json}`).join(',')}}`
    }
    return [`${path} ${name}`, { path, around }]
  })
}

function describeServer(kind: Parameters<typeof startMeasured>[0], placesOf: () => [string, Place][]): void {
  describe(`the cost of requests: ${kind}`, () => {
    let server: MeasuredServer
    beforeAll(async () => {
      server = await startMeasured(kind)
    })
    afterAll(() => server.close())
    const filled = (body: string): string => body.replace('INTEGRATION', server.integrationId)
    const places = placesOf().map(
      ([name, { around, ...place }]) => [name, { ...place, around: (value: string) => filled(around(value)) }] as const,
    )

    test.each(places)('%s', async (_name, place) => {
      expect(await excesses(server, place, place.shapes ?? BIG)).toEqual([])
    })

    // What reads AG-UI requests is what reads those of agencies.
    test.each(kind === 'agui' ? [] : Object.keys(HUGE))('32 MiB of %s, and memory that is bounded', async (shape) => {
      const [, place] = places[1]!
      expect(await excesses(server, place, { [shape]: HUGE[shape]! })).toEqual([])
      expect(await server.peakMiB()).toBeLessThan(1_500)
    })

    test('32 MiB that are no UTF-8', async () => {
      const [, { path, method }] = places[1]!
      const body = Buffer.concat([Buffer.from('{"message":"'), Buffer.alloc(30_000_000, 0xe9), Buffer.from('"}')])
      const { status, cpuMs } = await costOf(server, { path, method: method ?? 'POST', body })
      expect(status).toSatisfy((code: number) => code >= 400 && code < 500)
      expect(cpuMs).toBeLessThan(MAX_CPU_MS)
    })

    test('long addresses and many headers', async () => {
      const headers = Object.fromEntries(Array.from({ length: 1_500 }, (_, n) => [`x-${n}`, 'y']))
      const { path } = places[0]![1]
      for (const asked of [
        { path: `${path}?${'a=1&'.repeat(3_500)}` },
        { path: `${path}?limit=${'9'.repeat(14_000)}`, method: 'GET' },
        { path: `/${'x/'.repeat(7_000)}`, method: 'GET' },
        { path: `/${'%41'.repeat(5_000)}`, method: 'GET' },
        { path, headers },
        { path, headers: { 'content-type': `application/json;${'a=b;'.repeat(3_500)}` }, body: '{}' },
      ]) {
        const { status, cpuMs, answerBytes } = await costOf(server, asked)
        expect({
          asked,
          status: status < 500,
          cpuMs: cpuMs < MAX_CPU_MS,
          bytes: answerBytes < MAX_ERROR_BYTES,
        }).toEqual({
          asked,
          status: true,
          cpuMs: true,
          bytes: true,
        })
      }
    })
  })
}

const RUN = '/solo/get_response'
const CONFIG = 'base_url api_key default_headers thirdparty_keys litellm_keys model model_settings_extra_args'
const EXTRA = 'extra_headers include extra_body reasoning_effort max_tokens tools'

describeServer('agency', () => [
  [`${RUN} whole`, { path: RUN, around: (value) => value }],
  ...fields(
    RUN,
    { message: '"hi"' },
    [
      'message chat_history recipient_agent file_ids file_urls additional_instructions user_context generate_chat_name',
      'client_config unknown',
      ...CONFIG.split(' ').map((name) => `client_config.${name}`),
      ...EXTRA.split(' ').map((name) => `client_config.model_settings_extra_args.${name}`),
    ].flatMap((names) => names.split(' ')),
  ),
  ...fields('/solo/cancel_response_stream', { run_id: '"run"' }, ['run_id', 'cancel_mode']),
  ...fields('/get_logs', {}, ['log_id']),
  ...fields('/tool/look_up', { words: '[]', filters: '{}' }, ['words', 'filters', 'filters.a', 'page', 'unknown']),
  ...fields('/tool/sdk_look_up', { words: '[]' }, ['words', 'filters', 'unknown']),
])

const AGUI = { threadId: '"t"', runId: '"r"', messages: '[{"id":"a","role":"user","content":"hi"}]' }
const AGUI_FIELDS =
  'threadId runId parentRunId messages state tools context forwardedProps resume user_context file_urls'

/** JSON in a text, which servers read as well. */
const IN_TEXT: Shapes = {
  levels: () => `"${'['.repeat(12_000_000)}${']'.repeat(12_000_000)}"`,
  'empty lists': () => `"[${'[],'.repeat(8_000_000)}[]]"`,
}
const DECIDED = '[{"interruptId":"i","status":"resolved","payload":{"approved":true}}]'

describeServer('agui', () => [
  ...fields('/solo/get_response_stream', AGUI, AGUI_FIELDS.split(' ')),
  ...['content', 'toolCalls', 'id'].map((member): [string, Place] => {
    const messageOf = (value: string): string => `[{"id":"a","role":"user","content":"hi","${member}":${value}}]`
    const [[, { path, around }]] = fields('/solo/get_response_stream', AGUI, ['messages']) as [[string, Place]]
    return [`${path} messages ${member}`, { path, around: (value) => around(messageOf(value)) }]
  }),
  ...fields('/solo/get_response_stream', { ...AGUI, resume: DECIDED }, ['messages']).map(
    ([, place]): [string, Place] => {
      const around = (value: string): string =>
        place.around(`[{"id":"a","role":"tool","toolCallId":"a","content":${value}}]`)
      return [`${place.path} a result behind which a run goes on`, { ...place, around, shapes: IN_TEXT }]
    },
  ),
])

describeServer('platform', () => {
  const completion = { apiIntegrationId: '"INTEGRATION"', message: '"hi"' }
  const withBody = ROUTES.filter(({ body }) => body !== undefined)
  return withBody.flatMap(({ method, url, body, maxBodyBytes }) => {
    const path = url.replace(':integrationId', 'INTEGRATION').replaceAll(/:\w+/g, 'x')
    const base = path === '/get_completion_v2' ? completion : {}
    const shapes = maxBodyBytes === undefined ? SMALL : BIG
    const names = Object.keys((body as z.ZodObject).shape ?? {})
    return fields(path, base, names).map(([name, place]): [string, Place] => [name, { ...place, method, shapes }])
  })
})

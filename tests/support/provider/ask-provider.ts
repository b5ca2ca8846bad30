import type { FakeProvider } from '../fake-provider.ts'
import { isJsonObject, type JsonObject } from './json-object.ts'

export type Frame = { readonly event: string | null; readonly data: string; readonly json: JsonObject }

type Asking = { readonly key?: string | null; readonly signal?: AbortSignal }

export const MODEL = 'gpt-5-mini'

/** Sends JSON to the provider, with a key unless `key` is null. */
export function post(provider: FakeProvider, path: string, body: unknown, asking: Asking = {}): Promise<Response> {
  const { key = 'sk-test', signal } = asking
  const authorization = key === null ? {} : { authorization: `Bearer ${key}` }
  return fetch(provider.baseUrl + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...authorization },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal ? { signal } : {}),
  })
}

export const askResponses = (provider: FakeProvider, fields: JsonObject = {}, asking?: Asking): Promise<Response> =>
  post(provider, '/responses', { model: MODEL, input: 'hi', stream: true, ...fields }, asking)

export const askChat = (provider: FakeProvider, fields: JsonObject = {}, asking?: Asking): Promise<Response> => {
  const messages = [{ role: 'user', content: 'hi' }]
  return post(provider, '/chat/completions', { model: MODEL, messages, stream: true, ...fields }, asking)
}

/** The frames of a whole stream. */
export const framesOf = async (response: Response): Promise<readonly Frame[]> => parseFrames(await response.text())

function parseFrames(body: string): readonly Frame[] {
  return body
    .replaceAll(/\r\n?/g, '\n')
    .split('\n\n')
    .filter((block) => block !== '')
    .map(parseFrame)
}

function parseFrame(block: string): Frame {
  const lines = block.split('\n')
  const value = (field: string): string | null =>
    lines
      .find((line) => line.startsWith(`${field}:`))
      ?.slice(field.length + 1)
      .replace(/^ /, '') ?? null
  const data = value('data') ?? ''
  const json: unknown = data.startsWith('{') ? JSON.parse(data) : {}
  return { event: value('event'), data, json: isJsonObject(json) ? json : {} }
}

/** `a.b.0.c` of a JSON value. */
export const pick = (value: unknown, path: string): unknown =>
  path.split('.').reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], value)

export const typesOf = (frames: readonly Frame[]): readonly unknown[] => frames.map(({ json }) => json['type'])

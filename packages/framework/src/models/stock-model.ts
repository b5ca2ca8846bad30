import type { Model } from '#agents-core'
import type { ModelAccess, ModelApi } from './resolve-model.ts'

/** What can be known of a model object that comes from the SDK's package for the default vendor. */
export type StockModel = {
  readonly api: ModelApi
  /** Undefined where the object hides it: see `learnName`. */
  readonly name: string | undefined
  /** Address and credentials of its client, where our transport can use them as they are. */
  readonly client: Pick<ModelAccess, 'baseUrl' | 'apiKey' | 'headers'> | undefined
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Recognises the stock classes by their names, because the package that they come from is the user's and not ours.
 * Subclasses have names of their own and are custom models: undefined.
 */
export function readStockModel(model: Model): StockModel | undefined {
  const { _client: client, _model: name } = model as unknown as Fields
  switch (model.constructor.name) {
    case 'OpenAIResponsesModel':
      if (typeof name !== 'string') return undefined
      return { api: 'responses', name, client: readClient(asFields(client)) }
    case 'OpenAIChatCompletionsModel':
      return { api: 'chat_completions', name: undefined, client: undefined }
    default:
      return undefined
  }
}

/** A client that signs, routes or fetches in a way of its own (Azure, key functions, proxies) is left alone. */
function readClient(client: Fields): StockModel['client'] {
  const options = asFields(client['_options'])
  const { baseURL: baseUrl, apiKey, organization, project } = client
  const own = ['fetch', 'fetchOptions', 'defaultQuery', 'provider'].some((name) => options[name] !== undefined)
  const headers = readHeaders(options['defaultHeaders'])
  if (client.constructor.name !== 'OpenAI' || own || !headers) return undefined
  if (typeof baseUrl !== 'string' || typeof apiKey !== 'string' || typeof options['apiKey'] === 'function') {
    return undefined
  }
  return {
    baseUrl,
    apiKey,
    headers: {
      ...(typeof organization === 'string' && { 'openai-organization': organization }),
      ...(typeof project === 'string' && { 'openai-project': project }),
      ...headers,
    },
  }
}

function readHeaders(headers: unknown): Record<string, string> | undefined {
  if (headers === undefined) return {}
  if (headers instanceof Headers) return Object.fromEntries(headers)
  if (Object.getPrototypeOf(headers) !== Object.prototype) return undefined
  const entries = Object.entries(headers as Fields)
  if (!entries.every((entry): entry is [string, string] => typeof entry[1] === 'string')) return undefined
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]))
}

/**
 * The model name that a stock Chat Completions object keeps to itself.
 *
 * The object is asked to build a request; the request is stopped where its body is turned into text, so nothing is sent.
 *
 * @throws what stopped the object before it got there.
 */
export async function learnName(model: Model): Promise<string> {
  let name: unknown
  const stop = new Error('the name is known')
  const body = {
    toJSON(this: Fields): never {
      name = this['model']
      throw stop
    },
  }
  const request = { input: [], tools: [], handoffs: [], outputType: 'text', tracing: false } as const
  const events = model.getStreamedResponse({
    ...request,
    input: [],
    tools: [],
    handoffs: [],
    modelSettings: { providerData: body },
  })
  try {
    for await (const _event of events) break
  } catch (error) {
    if (typeof name !== 'string') throw error
  }
  return String(name)
}

function asFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

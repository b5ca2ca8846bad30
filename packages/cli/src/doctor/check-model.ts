import { DEMO_MODEL, modelProblems, otherProviderOf } from '@bureau/framework'
import { modelAccess, type ServerConfig } from '@bureau/server'
import type { AgencyModule } from '../load-agencies.ts'
import { checked, type Finding } from './finding.ts'

const ANSWER_MS = 5_000
/** Tokens and leases compare clocks; a difference that people would not notice is harmless. */
const MAX_CLOCK_OFF_MS = 60_000

const subject = 'Model'

/**
 * Asks the provider of the default model for its list of models, which costs nothing and shows whether the address is right, and at the
 * default provider also the key. That one is asked whenever it is set up: single agents may have models there.
 */
export async function* checkModels({ model, read }: ServerConfig): AsyncGenerator<Finding> {
  const { defaultModel, baseUrl, apiKey } = model
  const other = otherProviderOf(defaultModel, read)
  if (other?.address !== undefined) {
    const { address, addressName = '' } = other
    const text = `${defaultModel} at ${address}; whether it accepts the key shows with the first answer`
    yield checked(subject, async () => {
      const { clock } = await listModels(address, addressName)
      return clock ?? { subject, state: 'note', text }
    })
  }
  const isSetUp = apiKey !== undefined || read('OPENAI_BASE_URL') !== undefined
  if (other === undefined || isSetUp)
    yield checked(subject, () => checkModel(model, other ? baseUrl : `${defaultModel} at ${baseUrl}`))
}

async function checkModel({ defaultModel, baseUrl, apiKey }: ServerConfig['model'], text: string): Promise<Finding> {
  if (defaultModel === DEMO_MODEL) {
    const demo = 'the built-in demo model: set OPENAI_API_KEY or OPENAI_BASE_URL for a real one'
    return { subject, state: 'note', text: demo }
  }
  const { response, clock } = await listModels(baseUrl, 'OPENAI_BASE_URL', apiKey)
  if (response.status === 401 || response.status === 403) {
    const answered = `${baseUrl} answers ${response.status}`
    const reason = apiKey === undefined ? 'set OPENAI_API_KEY' : 'OPENAI_API_KEY is not accepted'
    return { subject, state: 'fault', text: `${answered}: ${reason}.` }
  }
  if (!response.ok) return { subject, state: 'note', text: `${text}; its list of models answers ${response.status}` }
  return clock ?? { subject, state: 'ok', text }
}

type ListAnswer = { readonly response: Response; readonly clock: Finding | undefined }

async function listModels(baseUrl: string, variable: string, apiKey?: string): Promise<ListAnswer> {
  const askedAt = Date.now()
  const response = await fetch(`${baseUrl.replace(/\/+$/, '')}/models`, {
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    signal: AbortSignal.timeout(ANSWER_MS),
  }).catch((cause: unknown) => {
    throw new Error(`${baseUrl} cannot be reached: check ${variable} and the network.`, { cause })
  })
  await response.body?.cancel()
  return { response, clock: clockFinding(response, askedAt) }
}

/** What keeps single agents from being answered. Undefined when nothing does. */
export async function checkAgents({ agencies = {} }: AgencyModule, config: ServerConfig): Promise<Finding | undefined> {
  const access = modelAccess(config)
  const problems = Object.entries(agencies).flatMap(([name, agency]) =>
    modelProblems(agency, access).map(({ agents, problem }) => `${agents.join(', ')} of ${name}: ${problem}`),
  )
  await access.close()
  return problems.length > 0 ? { subject, state: 'fault', text: problems.join('\n') } : undefined
}

function clockFinding(response: Response, askedAt: number): Finding | undefined {
  const there = Date.parse(response.headers.get('date') ?? '')
  const offMs = there - (askedAt + Date.now()) / 2
  if (!(Math.abs(offMs) > MAX_CLOCK_OFF_MS)) return undefined
  const text = `this machine's clock is off by ${Math.round(offMs / 1_000)} s from the provider's: set it by NTP.`
  return { subject: 'Clock', state: 'fault', text }
}

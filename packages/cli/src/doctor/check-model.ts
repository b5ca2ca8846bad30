import { DEMO_MODEL, modelProblems } from '@bureau/framework'
import { modelAccess, type ServerConfig } from '@bureau/server'
import type { AgencyModule } from '../load-agencies.ts'
import type { Finding } from './finding.ts'

const ANSWER_MS = 5_000
/** Tokens and leases compare clocks; a difference that people would not notice is harmless. */
const MAX_CLOCK_OFF_MS = 60_000

const subject = 'Model'

/** Asks the provider for its list of models, which costs nothing and shows whether address and key are right. */
export async function checkModel({ model }: ServerConfig): Promise<Finding> {
  if (model.defaultModel === DEMO_MODEL) {
    const text = 'the built-in demo model: set OPENAI_API_KEY or OPENAI_BASE_URL for a real one'
    return { subject, state: 'note', text }
  }
  const askedAt = Date.now()
  const response = await fetch(`${model.baseUrl.replace(/\/+$/, '')}/models`, {
    headers: model.apiKey === undefined ? {} : { authorization: `Bearer ${model.apiKey}` },
    signal: AbortSignal.timeout(ANSWER_MS),
  }).catch((cause: unknown) => {
    throw new Error(`${model.baseUrl} cannot be reached: check OPENAI_BASE_URL and the network.`, { cause })
  })
  await response.body?.cancel()
  if (response.status === 401 || response.status === 403) {
    const answered = `${model.baseUrl} answers ${response.status}`
    const text =
      model.apiKey === undefined ? `${answered}: set OPENAI_API_KEY.` : `${answered}: OPENAI_API_KEY is not accepted.`
    return { subject, state: 'fault', text }
  }
  const text = `${model.defaultModel} at ${model.baseUrl}`
  if (!response.ok) return { subject, state: 'note', text: `${text}; its list of models answers ${response.status}` }
  return clockFinding(response, askedAt) ?? { subject, state: 'ok', text }
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

import { existsSync } from 'node:fs'
import path from 'node:path'
import { DEMO_MODEL } from '@bureau/framework'
import type { FirstCredentials } from '@bureau/platform'
import type { ServerConfig } from '@bureau/server'
import type { AgencyModule } from './load-agencies.ts'

const MESSAGE = 'What is the weather in Paris?'

/** The first line that a command prints when its server answers. */
export function describeReady(url: string): string {
  return `Bureau is ready at ${url}\n`
}

/** What a self-hosted server serves, by which model, and a line that can be pasted to try it. */
export function describeServer(url: string, module: AgencyModule, config: ServerConfig): string {
  const agencies = Object.keys(module.agencies ?? {})
  const rows = table([
    ['Agencies', agencies.join(', ') || 'none'],
    ['Model', describeModel(config)],
    ['Documents', `${url}/docs  ${url}/redoc`],
  ])
  const [first] = agencies
  if (first === undefined) return rows
  // The shell that the line is pasted into has the token; what is printed may end up in a log.
  const tokens = config.read('APP_TOKEN')
  // Of several with spaces between, the first.
  const token = tokens && (/\s/.test(tokens) ? '${APP_TOKEN%%[[:space:]]*}' : '$APP_TOKEN')
  return `${rows}\n${attempt(`${url}/${first}/get_response_stream`, { message: MESSAGE }, token)}`
}

/** The same for the platform. Its first credentials are shown this once. */
export function describePlatform(url: string, credentials: FirstCredentials | undefined, dataFolder: string): string {
  const file = path.join(dataFolder, 'credentials.json')
  const rows = table([
    ['Platform', `${url}/get_completion_v2  ${url}/create_new_chat  ${url}/v1/...`],
    ['Documents', `${url}/v1/docs  ${url}/v1/redoc`],
    ['Data', dataFolder],
    ...(!credentials && existsSync(file) ? [['First key', file] as const] : []),
  ])
  if (!credentials) return rows
  const { apiKey, apiIntegrationId } = credentials
  const access = table([
    ['API key', apiKey],
    ['Integration', apiIntegrationId],
    ['Kept in', file],
  ])
  return `${rows}\n${access}\n${attempt(`${url}/get_completion_v2`, { apiIntegrationId, message: MESSAGE }, apiKey)}`
}

function table(rows: readonly (readonly [string, string])[]): string {
  return rows.map(([name, value]) => `  ${name.padEnd(12)}${value}\n`).join('')
}

function attempt(url: string, body: object, key?: string): string {
  const authorization = key === undefined ? '' : ` -H "Authorization: Bearer ${key}"`
  const line = `curl -N ${url}${authorization} -H 'content-type: application/json' -d '${JSON.stringify(body)}'`
  return `Try it:\n\n  ${line}\n`
}

function describeModel({ model }: ServerConfig): string {
  if (model.defaultModel === DEMO_MODEL) {
    return 'the built-in demo model (set OPENAI_API_KEY or OPENAI_BASE_URL for a real one)'
  }
  return `${model.defaultModel} at ${model.baseUrl}`
}

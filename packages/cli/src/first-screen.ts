import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { styleText } from 'node:util'
import { DEMO_MODEL, otherProviderOf } from '@bureau/framework'
import type { FirstCredentials } from '@bureau/platform'
import type { ServerConfig } from '@bureau/server'
import type { AgencyModule } from './load-agencies.ts'
import type { Terminal } from './terminal.ts'

/** What a command serves. */
type Served = {
  readonly url: string
  readonly config: ServerConfig
  /** Of the self-hosted server. */
  readonly module?: AgencyModule
  readonly platform?: {
    readonly dataFolder: string
    /** Those that were made just now. */
    readonly credentials: FirstCredentials | undefined
  }
}

/** To an agency that suggests nothing itself. */
const MESSAGE = 'What is the weather in Paris?'

type App = { readonly log: { info(fields: object, message: string): void } }

/** Says that a server answers: on one screen, or in one line of the log. */
export function announce(terminal: Terminal, app: App, served: Served): void {
  if (terminal.format === 'pretty') terminal.print(firstScreen(served, terminal.isPerson))
  else app.log.info(readyRecord(served), `Bureau is ready at ${served.url}`)
}

/** For programs: one record of the log. It never holds a key. */
export function readyRecord({ url, config, module, platform }: Served): Record<string, unknown> {
  return {
    url,
    ...(config.console && { console: `${url}/console` }),
    ...(module && { agencies: Object.keys(module.agencies ?? {}), model: modelOf(config), documents: `${url}/docs` }),
    ...(platform && {
      platform: `${url}/v1/docs`,
      dataFolder: platform.dataFolder,
      credentials: credentialsFile(platform),
    }),
  }
}

/**
 * What a person sees when a server answers: what is served, by which model, and a command that can be pasted.
 *
 * @param showsKey Whether the key of a first start may be shown, this once.
 */
function firstScreen(served: Served, showsKey: boolean): string {
  const { url, config, module, platform } = served
  const file = platform && credentialsFile(platform)
  const rows = table({
    Agencies: module && (Object.keys(module.agencies ?? {}).join(', ') || 'none'),
    Model: modelOf(config),
    Console: config.console && `${url}/console`,
    Documents: module && `${url}/docs`,
    Platform: platform && `${url}/v1/docs`,
    Data: platform?.dataFolder,
    'First key': file && `in ${file}`,
  })
  const key =
    showsKey && platform?.credentials ? `  Your first key, shown this once:\n\n${platform.credentials.apiKey}\n\n` : ''
  return `\n${styleText('bold', `Bureau is ready at ${url}`)}\n\n${rows}\n${key}${attemptOf(served)}`
}

function table(rows: Readonly<Record<string, string | false | undefined>>): string {
  return Object.entries(rows)
    .map(([name, value]) => (value ? `  ${styleText('dim', name.padEnd(11))}${value}\n` : ''))
    .join('')
}

function attemptOf({ url, config, module, platform }: Served): string {
  const [served] = Object.entries(module?.agencies ?? {})
  if (served !== undefined) {
    const [name, { entryPoint }] = served
    const [message = MESSAGE] = entryPoint.conversationStarters
    return attempt(`${url}/${name}/get_response_stream`, { message }, tokenOf(config))
  }
  const file = platform && credentialsFile(platform)
  if (file === undefined) return ''
  const { apiIntegrationId } = JSON.parse(readFileSync(file, 'utf8')) as FirstCredentials
  const key = `$(node -p "require('${shortPath(file)}').apiKey")`
  return attempt(`${url}/get_completion_v2`, { apiIntegrationId, message: MESSAGE }, key)
}

/** The shell that the command is pasted into has the token; what is printed may end up in a file. */
function tokenOf(config: ServerConfig): string | undefined {
  const tokens = config.read('APP_TOKEN')
  // Of several with spaces between, the first.
  return tokens && (/\s/.test(tokens) ? '${APP_TOKEN%%[[:space:]]*}' : '$APP_TOKEN')
}

function attempt(url: string, body: object, key?: string): string {
  const lines = [
    `curl -N ${url}`,
    ...(key === undefined ? [] : [`-H "Authorization: Bearer ${key}"`]),
    "-H 'content-type: application/json'",
    `-d '${JSON.stringify(body).replaceAll("'", String.raw`'\''`)}'`,
  ]
  return `  Try it:\n\n  ${lines.join(' \\\n    ')}\n\n`
}

function modelOf({ model, read }: ServerConfig): string {
  if (model.defaultModel === DEMO_MODEL) return 'the built-in demo model (OPENAI_API_KEY brings a real one)'
  const { address, missing } = otherProviderOf(model.defaultModel, read) ?? {
    address: model.baseUrl,
    missing: model.apiKey === undefined && read('OPENAI_BASE_URL') === undefined ? 'OPENAI_API_KEY' : undefined,
  }
  const place = address === undefined ? '' : ` at ${address}`
  return `${model.defaultModel}${place}${missing === undefined ? '' : ` (${missing} is not set)`}`
}

/** As a program in this folder names it. */
function shortPath(file: string): string {
  const relative = path.relative('', file)
  return relative.startsWith('..') ? path.resolve(file) : `./${relative}`
}

function credentialsFile({ dataFolder }: { readonly dataFolder: string }): string | undefined {
  const file = path.join(dataFolder, 'credentials.json')
  return existsSync(file) ? file : undefined
}

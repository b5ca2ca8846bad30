/**
 * Documentation that is made from the source: docs/errors.md, docs/configuration.md and .env.example.
 *
 * `node --conditions=@bureau/source scripts/write-docs.ts` writes them; with `--check` it exits with 1 when one is out of date.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { PlatformEnvironment } from '@bureau/platform'
import { ERRORS, isRetryable, RUN_ERRORS } from '@bureau/protocol'
import { ServerEnvironment } from '@bureau/server'
import { z } from 'zod'

const ROOT = path.resolve(import.meta.dirname, '..')

const MADE = '<!-- Made from the source by `npm run docs`. -->'

type Variable = { name: string; meaning: string; default: string }

const ENVIRONMENTS: readonly { title: string; schema: z.ZodObject }[] = [
  { title: 'Self-hosted server', schema: ServerEnvironment },
  { title: 'Hosted platform', schema: PlatformEnvironment },
]

/** What the command line reads itself. */
const LISTENING: readonly Variable[] = [
  { name: 'HOST', meaning: 'Address to listen on.', default: '127.0.0.1' },
  { name: 'PORT', meaning: 'Port to listen on; 0 picks a free one.', default: '8000' },
  { name: 'APP_TOKEN', meaning: 'Bearer token that every request must carry.', default: '' },
]

function documents(): Record<string, string> {
  return { 'docs/errors.md': errors(), 'docs/configuration.md': configuration(), '.env.example': example() }
}

function errors(): string {
  const refusals = Object.entries(ERRORS).map(([code, { status, message }]) =>
    row([`\`${code}\``, String(status), message]),
  )
  const failures = Object.entries(RUN_ERRORS).map(([code, of]) =>
    row([`\`${code}\``, of.class, isRetryable(code, of.class) ? 'yes' : 'no', of.message]),
  )
  return [
    '# Errors',
    '',
    MADE,
    '',
    'Every answer that is not a success is JSON with an `error`, a sentence for people, and a `code` for programs. So is every frame of a',
    'stream that says what went wrong. No such answer holds a stack trace, a key, a prompt or a path. Codes are added, never renamed or',
    'reused. What a [tool](agencies.md#tools) throws is no refusal: it is the output of its call, which the model reads and clients see.',
    '',
    '| Surface | Body |',
    '|---|---|',
    '| self-hosted server | `{"error", "code", "detail"}`; 422 has a list under `detail`, one entry per problem: `{"type", "loc", "msg", "input"}` |',
    '| `POST /get_completion_v2` | `{"error", "code"}` and the header `X-Agent-Run-Admitted` |',
    '| `POST /create_new_chat` | `{"detail"}` |',
    '| error frame of a stream | `{"error", "code"}`, the code of a failed run |',
    '| every other route of the platform | `{"error", "code", "requestId", "fields"?}` |',
    '',
    'Native routes of the self-hosted server answer `invalid_json` and `invalid_request` with 422, as FastAPI does.',
    '',
    '## Refusals',
    '',
    'The request was not carried out.',
    '',
    row(['Code', 'Status', 'Sentence']),
    row(['---', '---', '---']),
    ...refusals,
    '',
    '## Failed runs',
    '',
    'The run began and ended without an answer: an `error` event in the stream, then `messages` and `end`; 500 without a stream.',
    "`system` is our doing, `upstream` the model provider's or a tool server's, `caller` the request's, `limit` a bound that was set.",
    'Retry: whether the same request may succeed when it is sent again (`retryable` on the platform).',
    '',
    row(['Code', 'Class', 'Retry', 'Sentence']),
    row(['---', '---', '---', '---']),
    ...failures,
    '',
  ].join('\n')
}

function configuration(): string {
  const table = (variables: readonly Variable[]): string[] => [
    row(['Variable', 'Default', 'Meaning']),
    row(['---', '---', '---']),
    ...variables.map((of) => row([`\`${of.name}\``, of.default === '' ? '' : `\`${of.default}\``, of.meaning])),
    '',
  ]
  return [
    '# Configuration',
    '',
    MADE,
    '',
    'Everything is optional. An empty variable counts as absent. Mistakes are listed all at once, at start; the `bureau` command then ends',
    'with exit code 78. `bureau serve` and `bureau dev` read what is below *self-hosted server*, `bureau platform` what is below *hosted platform*, and',
    '`bureau start` both. Keys of [model vendors](models.md), and what [OpenTelemetry](observability.md#traces) and the AWS SDK read, are theirs.',
    'The command warns of other names that begin with `BUREAU_`, and of those with `PLATFORM_` that are like one below, and says which was',
    'probably meant.',
    '',
    '## Command line',
    '',
    ...table(LISTENING),
    ...ENVIRONMENTS.flatMap(({ title, schema }) => [`## ${title}`, '', ...table(variablesOf(schema))]),
  ].join('\n')
}

/** Every variable once, however many programs read it. */
function example(): string {
  const all = [...LISTENING, ...ENVIRONMENTS.flatMap(({ schema }) => variablesOf(schema))]
  const once = all.filter(({ name }, at) => all.findIndex((other) => other.name === name) === at)
  return once.map((of) => `# ${of.meaning}\n# ${of.name}=${of.default}\n`).join('\n')
}

type Property = {
  readonly description?: string
  readonly default?: string | number | boolean
  readonly enum?: string[]
}

function variablesOf(schema: z.ZodObject): Variable[] {
  const { properties = {} } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return Object.entries(properties).map(([name, property]) => {
    const { description, default: value = '', enum: values } = property as Property
    const meaning = [description, values && `One of ${values.join(', ')}.`].filter((part) => part !== undefined)
    if (meaning.length === 0) throw new Error(`${name} has no description`)
    return { name, meaning: meaning.join(' '), default: String(value) }
  })
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

const checking = process.argv.includes('--check')
for (const [file, text] of Object.entries(documents())) {
  const target = path.join(ROOT, file)
  if (!checking) writeFileSync(target, text)
  else if (readFileSync(target, 'utf8') !== text) {
    console.error(`${file} is out of date: npm run docs`)
    process.exitCode = 1
  }
}

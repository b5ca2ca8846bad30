import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { ROOT } from './page.ts'

type Manifest = Readonly<Record<string, unknown>> & { readonly name?: string; readonly version?: string }

const manifests = ['package.json', ...globSync('packages/*/package.json', { cwd: ROOT })].map(
  (file) => JSON.parse(readFileSync(path.join(ROOT, file), 'utf8')) as Manifest,
)

/** What can be installed by name: our packages, and every dependency that they or this repository name. */
const versions = new Map<string, Set<string>>()
for (const manifest of manifests) {
  if (manifest.name?.startsWith('@bureau/')) add(manifest.name, manifest.version!)
  for (const kind of ['dependencies', 'devDependencies', 'peerDependencies']) {
    for (const [name, version] of Object.entries((manifest[kind] ?? {}) as Record<string, string>)) add(name, version)
  }
}

function add(name: string, version: string): void {
  versions.set(name, (versions.get(name) ?? new Set()).add(version))
}

/** Ours, and what sends traces, which reads variables of its own. */
const SOURCES = ['packages/*/src/**/*.ts', 'node_modules/@opentelemetry/otlp-exporter-base/dist/**/*.cjs']

const sources = globSync(SOURCES, { cwd: ROOT, exclude: (name) => name.endsWith('.test.ts') })
  .map((file) => readFileSync(path.join(ROOT, file), 'utf8'))
  .join('\n')

const SCRIPTS = new Set(Object.keys(manifests[0]!['scripts'] as object))

/** Commands that no test can run, and what can be known of them. Each answers with what is wrong, if anything. */
const FORMS: readonly { readonly form: RegExp; readonly check: (match: readonly string[]) => string | undefined }[] = [
  { form: /^npm install((?: --?[\w-]+)*)((?: [@\w][\w./@^-]*)*)$/, check: ([, , names = '']) => unknownPackage(names) },
  { form: /^npm (?:ci|pack)(?: --[\w=-]+)*$/, check: () => undefined },
  { form: /^npm run ([\w:-]+)(?: -- .*)?$/, check: ([, name]) => unknownScript(name!) },
  { form: /^npm (test|start)$/, check: ([, name]) => unknownScript(name!) },
  { form: /^export ([A-Z][A-Z0-9_]*)=\S+$/, check: ([, name]) => unknownVariable(name!) },
  { form: /^npx bureau ([\w-]+)(?: .*)?$/, check: ([, name]) => unknownCommand(name!) },
  { form: /^docker compose (?:up -d --wait|down)$/, check: () => undefined },
  { form: /^(?:cp|docker|install|kubectl|systemctl|journalctl) (.+)$/, check: ([, args]) => missingFile(args!) },
]

/** What is wrong with a line that is only shown; undefined when everything that can be known of it is right. */
export function problemOfShown(line: string): string | undefined {
  if (line === '' || line.startsWith('# ')) return undefined
  for (const { form, check } of FORMS) {
    const match = form.exec(line)
    if (match) return check(match)
  }
  return 'no command that may only be shown: let it run, or add its form to tests/docs/shown-command.ts'
}

function unknownPackage(names: string): string | undefined {
  for (const each of names.split(' ').filter(Boolean)) {
    const [, name = '', version] = /^(@?[^@]+)(?:@(.+))?$/.exec(each)!
    const known = versions.get(name)
    if (!known) return `nothing of ours needs or is the package ${name}`
    if (version !== undefined && ![...known].some((range) => range.replace(/^[~^]/, '').startsWith(version))) {
      return `${name} is at ${[...known].join(', ')} here, not ${version}`
    }
  }
  return undefined
}

/** Of the files to deploy with. Those that a reader makes are known by where they are made. */
function missingFile(args: string): string | undefined {
  const named = [...args.matchAll(/(?<![\w/])deploy\/[\w./-]+/g)].map(([file]) => file)
  const missing = named.filter((file) => file !== 'deploy/.env' && !existsSync(path.join(ROOT, file)))
  return missing.length === 0 ? undefined : `there is no file ${missing.join(', ')}`
}

function unknownScript(name: string): string | undefined {
  return SCRIPTS.has(name) ? undefined : `package.json has no script "${name}"`
}

function unknownCommand(name: string): string | undefined {
  return sources.includes(`new Command('${name}')`) ? undefined : `there is no command bureau ${name}`
}

function unknownVariable(name: string): string | undefined {
  return new RegExp(`\\b${name}\\b`).test(sources) ? undefined : `nothing reads the variable ${name}`
}

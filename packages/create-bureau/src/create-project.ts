import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline/promises'
import {
  type Asked,
  CreateError,
  nameOf,
  NEEDED_NODE,
  type ProjectOptions,
  readArguments,
  type Template,
  TEMPLATES,
} from './project-options.ts'
import { forManager } from './package-managers.ts'
import { writeProject } from './write-project.ts'

type Caller = {
  /** How this program was called, for its help. */
  readonly command: string
  /** Installs what a project needs. Default: its package manager does. */
  readonly install?: (project: ProjectOptions) => void
}

const PACKAGE = new URL('../package.json', import.meta.url)

/**
 * Makes a project as its arguments say, asks a person for what they leave open, and installs what it needs last. Without
 * a terminal nothing is asked.
 *
 * @throws CreateError it cannot be made as asked; nothing was written then, except when only the installation failed.
 */
export async function createProject(
  args: readonly string[],
  { command, install = byPackageManager }: Caller,
): Promise<void> {
  const asked = readArguments(args, process.env['npm_config_user_agent'])
  const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as { version: string }
  if (asked.shows === 'version') return console.log(version)
  if (asked.shows === 'help') return console.log(helpOf(command))
  const options = await complete(asked, command)
  const files = writeProject(options, version)
  const place = path.relative('', options.folder) || '.'
  console.log(`Made ${place} from the template "${options.template}": ${files} files.`)
  if (options.installs) install(options)
  console.log(`\n${nextSteps(options, place)}`)
}

async function complete(asked: Asked, command: string): Promise<ProjectOptions> {
  const { folder, template, packageManager, installs, node } = asked
  const asks = !asked.yes && process.stdin.isTTY && process.stdout.isTTY
  const missing = folder === undefined || template === undefined
  const answers = asks && missing ? await askFor(asked) : { folder, template: template ?? ('minimal' as const) }
  if (answers.folder === undefined || answers.folder === '') {
    throw new CreateError(`Name the folder of the project: ${command} my-agency`)
  }
  const absolute = path.resolve(answers.folder)
  const name = asked.name ?? nameOf(absolute)
  return { folder: absolute, name, template: answers.template, packageManager, installs, node }
}

async function askFor({ folder, template }: Asked): Promise<{ folder: string; template: Template }> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  // Ctrl-C and Ctrl-D: nothing has been written.
  terminal.once('close', () => process.exit(130))
  try {
    const place = folder ?? ((await terminal.question('Folder of the project (my-agency): ')).trim() || 'my-agency')
    if (template !== undefined) return { folder: place, template }
    const names = Object.keys(TEMPLATES) as Template[]
    names.forEach((name, at) => console.log(`  ${at + 1}  ${name.padEnd(10)}${TEMPLATES[name]}`))
    for (;;) {
      const answer = (await terminal.question('Template (1): ')).trim() || '1'
      const chosen = names.find((name, at) => answer === name || answer === String(at + 1))
      if (chosen) return { folder: place, template: chosen }
      console.log(`Type a number from 1 to ${names.length}.`)
    }
  } finally {
    terminal.removeAllListeners('close')
    terminal.close()
  }
}

/** @throws CreateError */
function byPackageManager({ folder, packageManager }: ProjectOptions): void {
  const { name } = packageManager
  console.log(`Installing with ${name} …`)
  const isWindows = process.platform === 'win32'
  const { status, error } = spawnSync(name, ['install'], { cwd: folder, stdio: 'inherit', shell: isWindows })
  if (status === 0) return
  const isMissing = error !== undefined && 'code' in error && error.code === 'ENOENT'
  const reason = isMissing ? `There is no ${name} here: ` : ''
  throw new CreateError(`${reason}${name} install failed. The project is complete: run it again in ${folder}.`)
}

function nextSteps({ installs, packageManager, template, node }: ProjectOptions, place: string): string {
  const steps = [
    ...(place === '.' ? [] : [`cd ${/\s/.test(place) ? `"${place}"` : place}`]),
    ...(installs ? [] : [`${packageManager.name} install`]),
    forManager('npm run dev', packageManager),
  ]
  const isOld = node.localeCompare(NEEDED_NODE, 'en', { numeric: true }) < 0
  const needed = isOld
    ? forManager(
        `\n\nIt needs Node.js ${NEEDED_NODE} or newer; this is ${node}. Install it, or "npm install node@26" there.`,
        packageManager,
      )
    : ''
  const edited = template === 'nextjs' ? 'agency.ts and app/page.tsx' : 'agency.ts'
  return `Next:\n\n${steps.map((step) => `  ${step}\n`).join('')}\nYour agents are in ${edited}. No key is needed to begin; OPENAI_API_KEY in .env brings a real model.${needed}`
}

function helpOf(command: string): string {
  const templates = Object.entries(TEMPLATES).map(([name, text]) => `  ${name.padEnd(10)}${text}`)
  return `Usage: ${command} [folder] [options]

Makes a project with an agency of AI agents.

Options:
  -t, --template <name>     see below (default: minimal)
      --name <name>         name in package.json (default: that of the folder)
      --package-manager <m> npm, pnpm, yarn or bun (default: what runs this)
      --no-install          do not install
  -y, --yes                 ask nothing
  -v, --version             show the version
  -h, --help                show this

Templates:
${templates.join('\n')}`
}

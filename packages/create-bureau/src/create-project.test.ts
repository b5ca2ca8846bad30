import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { explainTarballs } from '../../../scripts/create.ts'
import { TEMPLATES } from './project-options.ts'

const BIN = fileURLToPath(new URL('../bin/create-bureau.mjs', import.meta.url))

function temporary(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'create-bureau-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

/** Runs the command in a folder, without a terminal. */
function create(cwd: string, ...args: string[]) {
  return createBy('pnpm/10.0.0 npm/? node/v24.11.0', cwd, ...args)
}

/** The same by the package manager that calls itself so. */
function createBy(userAgent: string, cwd: string, ...args: string[]) {
  const env = { PATH: process.env['PATH'], npm_config_user_agent: userAgent }
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...args], {
    cwd,
    env,
    encoding: 'utf8',
    timeout: 15_000,
  })
  return { status, stdout, stderr }
}

describe.each(Object.keys(TEMPLATES))('the template %s', (template) => {
  test('is a whole project under the name of its folder, without a question', () => {
    const cwd = temporary()
    const { status, stdout, stderr } = create(cwd, 'My Agency', '--template', template, '--no-install')
    const folder = path.join(cwd, 'My Agency')
    const files = readdirSync(folder)

    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const always = [
      '.dockerignore',
      '.env',
      '.gitignore',
      'AGENTS.md',
      'Dockerfile',
      'README.md',
      'agency.test.ts',
      'agency.ts',
      'check-node.mjs',
    ]
    expect(files).toEqual(expect.arrayContaining([...always, 'package.json', 'tsconfig.json']))
    expect(files.filter((name) => name.startsWith('_'))).toEqual([])
    const manifest = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))
    expect(manifest).toMatchObject({
      name: 'my-agency',
      private: true,
      type: 'module',
      scripts: { test: 'node check-node.mjs && node --test' },
    })
    expect(readFileSync(path.join(folder, 'README.md'), 'utf8')).toContain('# my-agency')
    expect(statSync(path.join(folder, '.env')).mode & 0o777).toBe(0o600)
    expect(readFileSync(path.join(folder, '.gitignore'), 'utf8')).toMatch(/^\.env$/m)
    expect(stdout).toContain('  cd "My Agency"\n  pnpm install\n  pnpm dev\n')
  })
})

test('made under an older Node, which a checkout need not notice, it ends with what is needed', () => {
  const cwd = temporary()
  const env = { PATH: process.env['PATH'], npm_config_user_agent: 'npm/10.8.2 node/v20.20.2 linux x64' }
  const { stdout } = spawnSync(process.execPath, [BIN, 'a', '--no-install'], { cwd, env, encoding: 'utf8' })

  expect(stdout).toMatch(/It needs Node\.js 24\.11 or newer; this is 20\.20\.2\. Install it, .*\n$/)
})

test('its tests say which Node they need instead of passing without running', () => {
  const cwd = temporary()
  create(cwd, 'a', '--no-install')
  const checked = (preload: string) =>
    spawnSync(process.execPath, ['--import', `data:text/javascript,${preload}`, 'a/check-node.mjs'], {
      cwd,
      encoding: 'utf8',
    })
  const older = checked("Object.defineProperty(process, 'versions', { value: { node: '20.20.2' } })")

  expect(older.status).toBe(1)
  expect(older.stderr).toContain('The tests need Node.js 24.11 or newer')
  expect(checked('')).toMatchObject({ status: 0, stderr: '' })
})

describe.each([
  {
    agent: 'npm/11.6.2 node/v24.11.0',
    words: ['npm run dev    #', 'npm test       #', 'npm run types\n', '`npx bureau doctor`'],
    image: /^COPY package\*\.json \.\/\nRUN npm ci --omit=dev$/m,
    lock: undefined,
  },
  {
    agent: 'pnpm/10.34.9 npm/? node/v24.11.0',
    words: ['pnpm dev       #', 'pnpm test      #', 'pnpm types\n', '`pnpm exec bureau doctor`'],
    image: /^COPY package\.json pnpm-lock\.yaml \.\/\nRUN corepack enable && pnpm install --frozen-lockfile --prod$/m,
    lock: 'pnpm@10.34.9',
  },
  {
    agent: 'yarn/1.22.22 npm/? node/v24.11.0',
    words: ['yarn dev       #', 'yarn test      #', 'yarn types\n', '`yarn bureau doctor`'],
    image: /^COPY package\.json yarn\.lock \.yarnrc\.yml \.\/\nRUN yarn install --frozen-lockfile --production$/m,
    lock: 'yarn@1.22.22',
  },
  {
    agent: 'yarn/4.18.1 npm/? node/v24.11.0',
    words: ['yarn dev       #', 'yarn test      #', 'yarn types\n', '`yarn bureau doctor`'],
    image: /^RUN corepack enable && yarn workspaces focus --production$/m,
    lock: 'yarn@4.18.1',
  },
  {
    agent: 'bun/1.4.5 npm/? node/v24.11.0',
    words: ['bun run dev    #', 'bun run test   #', 'bun run types\n', '`bunx bureau doctor`'],
    image:
      /^COPY package\.json bun\.lock \.\/\nRUN npm install --global bun@1\.4\.5 && bun install --frozen-lockfile --production$/m,
    lock: undefined,
  },
])('made by $agent', ({ agent, words, image, lock }) => {
  test.each(Object.keys(TEMPLATES))('%s speaks of that package manager alone', (template) => {
    const cwd = temporary()
    const { stdout } = createBy(agent, cwd, 'a', '--no-install', '--template', template)
    const read = (file: string): string => readFileSync(path.join(cwd, 'a', file), 'utf8')
    const texts = ['README.md', 'AGENTS.md', 'Dockerfile', 'check-node.mjs'].map(read)

    expect(stdout).toContain(words[0]!.split(' #')[0]!.trimEnd())
    expect(JSON.parse(read('package.json')).packageManager).toBe(lock)
    if (template === 'minimal') {
      for (const word of words) expect(read('README.md')).toContain(word)
      expect(read('Dockerfile')).toMatch(image)
    }
    const others = agent.startsWith('npm') ? /pnpm|yarn|bunx|bun / : /\bnpm (?!install --global bun)|npx/
    for (const text of texts) expect(text).not.toMatch(others)
  })
})

test('made with packed packages, its image gets them before it installs, and its README says how to add one', () => {
  const cwd = temporary()
  create(cwd, 'a', '--no-install', '--package-manager', 'npm')
  const folder = path.join(cwd, 'a')
  explainTarballs(folder, new Map([['@bureau/platform', 'packages/bureau-platform-0.1.0.tgz']]))

  expect(readFileSync(path.join(folder, 'Dockerfile'), 'utf8')).toMatch(/^COPY packages \.\/packages\nRUN npm ci/m)
  expect(readFileSync(path.join(folder, 'README.md'), 'utf8')).toContain(
    'Add one of them by its file: `npm install ./packages/bureau-platform-0.1.0.tgz` adds the platform',
  )
})

test('made with packed packages, a project that has the platform says how to add another one as well', () => {
  const cwd = temporary()
  create(cwd, 'a', '--no-install', '--package-manager', 'npm', '--template', 'platform')
  const folder = path.join(cwd, 'a')
  const names = ['@bureau/platform', '@bureau/client']
  explainTarballs(
    folder,
    new Map(names.map((name) => [name, `packages/${name.replace(/[@/]/g, '-').slice(1)}-0.1.0.tgz`])),
  )

  expect(readFileSync(path.join(folder, 'README.md'), 'utf8')).toContain(
    'Add one of them by its file: `npm install ./packages/bureau-client-0.1.0.tgz` adds the client.',
  )
})

test('into a folder that has files of the same names, nothing is written', () => {
  const folder = temporary()
  writeFileSync(path.join(folder, 'agency.ts'), 'mine')
  const { status, stderr } = create(folder, '.', '--no-install')

  expect(status).toBe(1)
  expect(stderr).toMatch(/has agency\.ts already\. Choose another folder: nothing is replaced\.\n$/)
  expect(readdirSync(folder)).toEqual(['agency.ts'])
})

test.runIf(process.platform === 'linux')('where no folder can be made, it says so', () => {
  const { status, stderr } = create(temporary(), '/proc/new/agency', '--no-install')

  expect({ status, stderr }).toEqual({ status: 1, stderr: '/proc/new/agency cannot be written to: ENOENT.\n' })
})

test.each([
  [[], 'Name the folder of the project: npm create bureau@latest -- my-agency'],
  [['--yes'], 'Name the folder of the project: npm create bureau@latest -- my-agency'],
  [['a', 'b'], 'Name one folder, not 2: a, b.'],
  [['a', '-t', 'big'], '--template: there is no "big". Choose one of: minimal, handoffs, tools, platform, nextjs.'],
  [['a', '--name', 'Big App'], '--name: "Big App" is not a package name. Use small letters, digits, "-", "_" and ".".'],
  [['a', '--package-manager', 'cargo'], '--package-manager: there is no "cargo". Choose one of: npm, pnpm, yarn, bun.'],
  [['a', '--force'], "Unknown option '--force'. See --help."],
])('%j is refused in one sentence', (args, sentence) => {
  const cwd = temporary()
  const { status, stderr } = create(cwd, ...args)

  expect({ status, stderr }).toEqual({ status: 1, stderr: `${sentence}\n` })
  expect(readdirSync(cwd)).toEqual([])
})

test('an installation that fails leaves the project, and says what to do', () => {
  const cwd = temporary()
  const env = { PATH: path.join(cwd, 'nothing') }
  const { status, stderr } = spawnSync(process.execPath, [BIN, 'a', '--package-manager', 'yarn'], {
    cwd,
    env,
    encoding: 'utf8',
  })

  expect(status).toBe(1)
  expect(stderr).toContain('There is no yarn here: yarn install failed. The project is complete: run it again in')
  expect(existsSync(path.join(cwd, 'a/agency.ts'))).toBe(true)
})

test('help names every template and option, and the version is that of the package', () => {
  const cwd = temporary()
  const { stdout } = create(cwd, '--help')
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

  for (const name of Object.keys(TEMPLATES)) expect(stdout).toContain(`  ${name} `)
  expect(create(cwd, '--version').stdout).toBe(`${version}\n`)
})

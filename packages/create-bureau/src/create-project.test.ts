import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { TEMPLATES } from './project-options.ts'

const BIN = fileURLToPath(new URL('../bin/create-bureau.mjs', import.meta.url))

function temporary(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'create-bureau-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

/** Runs the command in a folder, without a terminal. */
function create(cwd: string, ...args: string[]) {
  const env = { PATH: process.env['PATH'], npm_config_user_agent: 'pnpm/10.0.0 npm/? node/v24' }
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
    ]
    expect(files).toEqual(expect.arrayContaining([...always, 'package.json', 'tsconfig.json']))
    expect(files.filter((name) => name.startsWith('_'))).toEqual([])
    const manifest = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))
    expect(manifest).toMatchObject({
      name: 'my-agency',
      private: true,
      type: 'module',
      scripts: { test: 'node --test' },
    })
    expect(readFileSync(path.join(folder, 'README.md'), 'utf8')).toContain('# my-agency')
    expect(statSync(path.join(folder, '.env')).mode & 0o777).toBe(0o600)
    expect(readFileSync(path.join(folder, '.gitignore'), 'utf8')).toMatch(/^\.env$/m)
    expect(stdout).toContain('  cd My Agency\n  pnpm install\n  pnpm dev\n')
  })
})

test('into a folder that has files of the same names, nothing is written', () => {
  const folder = temporary()
  writeFileSync(path.join(folder, 'agency.ts'), 'mine')
  const { status, stderr } = create(folder, '.', '--no-install')

  expect(status).toBe(1)
  expect(stderr).toMatch(/has agency\.ts already\. Choose another folder: nothing is replaced\.\n$/)
  expect(readdirSync(folder)).toEqual(['agency.ts'])
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
  expect(stderr).toContain('yarn install failed. The project is complete: run it again in')
  expect(existsSync(path.join(cwd, 'a/agency.ts'))).toBe(true)
})

test('help names every template and option, and the version is that of the package', () => {
  const cwd = temporary()
  const { stdout } = create(cwd, '--help')
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

  for (const name of Object.keys(TEMPLATES)) expect(stdout).toContain(`  ${name} `)
  expect(create(cwd, '--version').stdout).toBe(`${version}\n`)
})

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, lstatSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { useTarballs } from '../../scripts/create.ts'
import { compileAndPack } from '../../scripts/pack.ts'

const MAX_INSTALLED_MB = 60

const run = promisify(execFile)

let folder = ''
/** Packed packages, by name. */
let tarballs: ReadonlyMap<string, string>

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'bureau-create-'))
  tarballs = new Map(compileAndPack(path.join(folder, 'tarballs')).map(({ name, filename }) => [name, filename]))
  writeFileSync(path.join(folder, 'package.json'), '{ "private": true }')
  await run('npm', ['install', ...QUICK, tarballs.get('create-bureau')!], { cwd: folder })
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

const QUICK = ['--prefer-offline', '--no-audit', '--no-fund']

/** What a newcomer does, with packed packages in the place of published ones. */
async function create(template: string, name = template): Promise<string> {
  const bin = path.join(folder, 'node_modules/.bin/create-bureau')
  await run(bin, [name, '--template', template, '--no-install'], { cwd: folder })
  const project = path.join(folder, name)
  useTarballs(project, tarballs)
  await run('npm', ['install', ...QUICK], { cwd: project })
  return project
}

/** Starts the project as its README says; resolves with its address. */
async function dev(project: string): Promise<string> {
  const child = spawn('npm', ['run', 'dev'], {
    cwd: project,
    env: { PATH: process.env['PATH'], HOME: folder, PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  onTestFinished(() => stop(child))
  let output = ''
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      const url = /Bureau is ready at ([^\s"]+)/.exec(output)?.[1]
      if (url) resolve(url)
    })
  }
  child.once('exit', () => reject(new Error(output)))
  return promise
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.pid === undefined) return
  const exited = once(child, 'exit')
  process.kill(-child.pid, 'SIGKILL')
  await exited
}

async function ask(url: string, message: string): Promise<string> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/support/get_response`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ message }),
  })
  return ((await response.json()) as { response: string }).response
}

/** What files take on the disk, as `du` counts. */
function installedMb(project: string): number {
  const names = globSync('node_modules/**', { cwd: project })
  return names.reduce((sum, name) => sum + lstatSync(path.join(project, name)).blocks * 512, 0) / 1_048_576
}

describe('a project from packed packages', () => {
  test('minimal: serves, is changed in one file, and is served anew', async () => {
    const project = await create('minimal')
    const url = await dev(project)
    expect(await ask(url, 'Hello')).toContain('Hello')

    const file = path.join(project, 'agency.ts')
    writeFileSync(file, readFileSync(file, 'utf8').replace('export const support', 'export const shop'))
    const changed = await dev(project)
    expect((await fetch(`${changed}/shop/get_metadata`)).status).toBe(200)
    writeFileSync(file, readFileSync(file, 'utf8').replace('export const shop', 'export const support'))
    await checkProject(project)
  })

  test('minimal: what production needs is small, and holds the documents', async () => {
    const project = await create('minimal', 'small')
    await run('npm', ['prune', '--omit=dev', ...QUICK], { cwd: project })

    expect(installedMb(project)).toBeLessThanOrEqual(MAX_INSTALLED_MB)
    const modules = path.join(project, 'node_modules')
    expect(
      globSync('@bureau/runtime/dist/guide/docs/{README,agencies,scripts-and-tests}.md', { cwd: modules }),
    ).toHaveLength(3)
    for (const name of globSync('@bureau/*', { cwd: modules })) {
      expect(globSync(`${name}/{README.md,LICENSE}`, { cwd: modules })).toHaveLength(2)
    }
    const start = run('npx', ['bureau', 'start'], { cwd: project })
    await expect(start).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('npm install @bureau/platform'),
    })
  })

  test.each(['handoffs', 'tools', 'platform'])(
    '%s: serves, and its own tests and types are right',
    async (template) => {
      const project = await create(template)
      expect(await ask(await dev(project), 'Hello')).toContain('Hello')
      await checkProject(project)
    },
  )
})

async function checkProject(project: string): Promise<void> {
  const { stdout } = await run('npm', ['test'], { cwd: project })
  expect(stdout).toMatch(/fail 0/)
  await run('npm', ['run', 'types'], { cwd: project })
}

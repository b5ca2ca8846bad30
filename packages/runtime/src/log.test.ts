import { spawn, spawnSync, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** How Node runs code that logs. */
function argumentsFor(code: string): string[] {
  const module = fileURLToPath(new URL('./log.ts', import.meta.url))
  const program = `import { createLogger } from '${module}'\nconst log = createLogger('info')\n${code}`
  return ['--conditions=@bureau/source', '--input-type=module', '--eval', program]
}

/** The records that a process logs which ends right after the last one. */
function logged(code: string): Record<string, unknown>[] {
  const { stdout, stderr, status } = spawnSync(process.execPath, argumentsFor(code), { encoding: 'utf8' })
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 })
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

test('secrets are cut out wherever they stand, and nothing else is changed', () => {
  const [record, child, failure] = logged(`
    log.info({ token: 'S', run: { id: 1, list: [{ deep: { request: { headers: { authorization: 'S', host: 'h' } } } }] } })
    log.child({ password: 'S', part: 'mail' }).info('sent')
    const error = Object.assign(new Error('no'), { config: { api_key: 'S', url: 'u' } })
    log.warn({ err: error }, 'failed')
    log.warn(error)
  `)

  expect(record).toMatchObject({
    token: '[redacted]',
    run: { id: 1, list: [{ deep: { request: { headers: { authorization: '[redacted]', host: 'h' } } } }] },
  })
  expect(child).toMatchObject({ password: '[redacted]', part: 'mail', msg: 'sent' })
  expect(failure).toMatchObject({ err: { message: 'no', config: { api_key: '[redacted]', url: 'u' } }, msg: 'failed' })
})

test('the object that is logged keeps its secrets, and a cycle ends', () => {
  const [first, second] = logged(`
    const settings = { cookie: 'S' }
    settings.self = settings
    log.info({ settings })
    log.info(settings.cookie)
  `)

  expect(JSON.stringify(first)).not.toContain('"S"')
  expect(second).toMatchObject({ msg: 'S' })
})

test('lines that were written together all arrive when the process ends by itself', () => {
  expect(logged('for (let n = 0; n < 500; n++) log.info({ n })').map(({ n }) => n)).toEqual(
    Array.from({ length: 500 }, (_, n) => n),
  )
})

test('lines wait for each other for a moment, and where there are none nothing is written', () => {
  const [first, second, last] = logged(`
    import fs from 'node:fs'
    import { setTimeout as pause } from 'node:timers/promises'
    let writes = 0
    const { write } = fs
    fs.write = (...args) => (writes++, write(...args))
    createLogger('info').info('of another logger')
    log.info({})
    while (writes === 0) await pause(10)
    await pause(500)
    log.info({ writes })
  `)

  expect(first).toMatchObject({ msg: 'of another logger' })
  expect(second).toBeDefined()
  expect(last).toMatchObject({ writes: 1 })
})

test('of a log that nobody reads 16 MiB are kept, and later it says how much is missing', async () => {
  const child = spawn(
    process.execPath,
    argumentsFor(`
      for (let n = 0; n < 4_000; n++) log.info('x'.repeat(8_000))
      process.send('logged')
      process.once('message', () => process.disconnect())
    `),
    { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] },
  )
  await once(child, 'message')
  let kept = 0
  let missing = 0
  for await (const line of createInterface({ input: child.stdout! })) {
    const { level, lines } = JSON.parse(line) as { level: number; lines?: number }
    if (level === 30) kept++
    missing = lines ?? 0
    if (missing > 0) child.send('all is read')
  }
  expect(kept * 8_000).toBeGreaterThan(15 * 1024 ** 2)
  expect(kept + missing).toBe(4_000)
})

test('a full disk is reported on standard error, and the process goes on and ends', () => {
  const code = `
    setInterval(() => {}, 1_000) // it would go on, like a server
    process.once('warning', () => { log.info('two'); console.error('still here'); process.exit(0) })
    log.info('one')
  `
  const full = openSync('/dev/full', 'w')
  const stdio: StdioOptions = ['ignore', full, 'pipe']
  const { stderr, status } = spawnSync(process.execPath, argumentsFor(code), {
    stdio,
    encoding: 'utf8',
    timeout: 10_000,
  })
  closeSync(full)

  expect(status).toBe(0)
  expect(stderr).toMatch(/The log cannot be written: ENOSPC.*\n(.*\n)?still here/)
})

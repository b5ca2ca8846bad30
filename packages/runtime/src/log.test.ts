import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** The records that a process logs which ends right after the last one. */
function logged(code: string): Record<string, unknown>[] {
  const module = fileURLToPath(new URL('./log.ts', import.meta.url))
  const program = `import { createLogger } from '${module}'\nconst log = createLogger('info')\n${code}`
  const args = ['--conditions=@bureau/source', '--input-type=module', '--eval', program]
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { encoding: 'utf8' })
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

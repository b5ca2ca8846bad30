import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { zstdDecompressSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { equipStore } from '../platform-store.ts'
import { Replica } from '../runs/recover/replica.ts'
import { backUp } from '../system/maintenance.ts'
import type { Platform } from '../context.ts'
import { backupDatabase, restoreDatabase } from './backup.ts'
import { PgliteDatabase } from './database.pglite.ts'
import { preparedDump, queryRows } from './engines.contract.ts'
import { EMBEDDED_POSTGRES } from './folder-format.ts'
import { endThread } from './database.test-operations.ts'
import { checkInvariants } from './invariants.contract.ts'
import { openDatabase } from './open-database.ts'

/** All that migrations make, and what they found. */
const DESCRIPTIONS = [
  "SELECT version, name, encode(checksum, 'hex') FROM schema_migrations ORDER BY version",
  "SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
  "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
  "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
  "SELECT proname, prosrc, prosecdef FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
  'SELECT tablename, policyname, roles::text, cmd, qual, with_check FROM pg_policies ORDER BY 1, 2',
  "SELECT relname, relrowsecurity, relforcerowsecurity, relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
  'SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1',
  'SELECT rolname, rolsuper, rolbypassrls, rolcanlogin FROM pg_roles ORDER BY 1',
  "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'server_encoding', 'lc_collate', 'TimeZone', 'shared_buffers')",
]

describe('the embedded database', () => {
  let template: string
  let scratch: string
  let folder: string
  beforeAll(async () => {
    template = mkdtempSync(join(tmpdir(), 'bureau-template-'))
    await restoreDatabase(await preparedDump(), template)
  })
  beforeEach(() => {
    scratch = mkdtempSync(join(tmpdir(), 'bureau-records-'))
    folder = join(scratch, 'data')
    cpSync(template, folder, { recursive: true })
  })
  afterEach(() => rmSync(scratch, { recursive: true }))
  afterAll(() => rmSync(template, { recursive: true }))

  const open = (): Promise<PgliteDatabase> => PgliteDatabase.open({ folder })
  const fill = (db: PgliteDatabase): Promise<unknown> =>
    db.run(queryRows, 'CREATE TABLE things AS SELECT generate_series(1, 1000) AS n')
  const count = async (db: PgliteDatabase): Promise<unknown> =>
    (await db.run(queryRows, 'SELECT count(*)::int AS n FROM things'))[0]

  test('keeps its records over a restart', async () => {
    const first = await open()
    await fill(first)
    await first.close()
    const second = await open()
    expect(await count(second)).toEqual({ n: 1000 })
    await second.close()
  })

  test('is the PostgreSQL whose files the folder says it holds, and holds up no timer of the process', async () => {
    const db = await openDatabase(`pglite:${folder}`)
    const [version] = await db.run(queryRows, "SELECT current_setting('server_version_num')::int / 10000 AS major")
    expect([db.engine, version]).toEqual(['pglite', { major: EMBEDDED_POSTGRES }])
    let ticks = 0
    const timer = setInterval(() => ticks++, 10)
    await db.run(queryRows, 'SELECT pg_sleep(2)')
    clearInterval(timer)
    expect(ticks).toBeGreaterThan(20)
    await db.close()
  })

  test('its folder is for one opener: not for a second one in this process', async () => {
    const db = await open()
    await expect(open()).rejects.toMatchObject({
      // Not a mistake in the settings: a service manager that starts the process again may succeed.
      name: 'StartError',
      message: `The data folder ${folder} is in use by another process. Stop it, or choose another folder with BUREAU_DATA.`,
    })
    await db.close()
    await (await open()).close()
  })

  test('refuses a folder of another engine version, a damaged one and one it does not know', async () => {
    const format = join(folder, 'FORMAT')
    writeFileSync(format, '{"engine":"pglite","postgres":17}')
    await expect(open()).rejects.toThrow(`made by an embedded PostgreSQL 17; this version has ${EMBEDDED_POSTGRES}`)
    writeFileSync(format, 'x')
    await expect(open()).rejects.toThrow('is damaged or of an unknown kind')
    rmSync(format)
    await expect(open()).rejects.toThrow('is missing; the data cannot be identified')
  })

  test('refuses a schema that is newer than the program, or not the one that it shipped', async () => {
    const spoil = async (statement: string): Promise<void> => {
      const db = await open()
      await db.run(queryRows, statement)
      await db.close()
    }
    await spoil("INSERT INTO schema_migrations (version, name, checksum) VALUES (99, 'later', '')")
    await expect(open()).rejects.toMatchObject({
      name: 'ConfigError',
      message: expect.stringContaining('schema version 99'),
    })
    rmSync(folder, { recursive: true })
    cpSync(template, folder, { recursive: true })
    await spoil("UPDATE schema_migrations SET checksum = '' WHERE version = 1")
    await expect(open()).rejects.toThrow('0001-initial differs from the one of this program')
  })

  test('a copy taken under load is complete and opens in a new folder only', async () => {
    const db = await open()
    await fill(db)
    const copy = join(scratch, 'copy.tar')
    const writes = Array.from({ length: 50 }, (_, n) => db.run(queryRows, `INSERT INTO things VALUES (${2000 + n})`))
    await Promise.all([backupDatabase(db, copy), ...writes])
    await expect(backupDatabase(db, join(scratch, 'no', 'such', 'folder'))).rejects.toThrow('ENOENT')
    expect(await count(db)).toEqual({ n: 1050 })
    await db.close()
    expect(existsSync(`${copy}.part`)).toBe(false)

    await expect(restoreDatabase(copy, folder)).rejects.toThrow('already holds a database')
    const restored = join(scratch, 'restored')
    await restoreDatabase(copy, restored)
    const second = await PgliteDatabase.open({ folder: restored })
    const [row] = await second.run(queryRows, 'SELECT count(*)::int AS n FROM things WHERE n <= 1000')
    expect(row).toEqual({ n: 1000 })
    await second.close()
  })

  test('a copy that does not fit on the disk leaves nothing there', async () => {
    const db = await open()
    const copy = join(scratch, 'copy.tar')
    symlinkSync('/dev/full', `${copy}.part`)
    await expect(backupDatabase(db, copy)).rejects.toThrow('ENOSPC')
    await db.close()
    expect(readdirSync(scratch).filter((file) => file.startsWith('copy'))).toEqual([])
  })

  test('what a killed process has left of a copy goes with the next one', async () => {
    const db = await open()
    const backups = join(folder, 'backups')
    mkdirSync(backups)
    writeFileSync(join(backups, '2026-01-01T00-00-00-000Z.tar.part'), 'cut off')
    await backUp({ store: { db }, config: { dataFolder: folder } } as unknown as Platform)
    await db.close()
    expect(readdirSync(backups)).toEqual([expect.stringMatching(/Z\.tar$/)])
  })

  test('what is no complete copy is refused, and leaves no database behind', async () => {
    const db = await open()
    const copy = join(scratch, 'copy.tar')
    await backupDatabase(db, copy)
    await db.close()
    const cutOff = join(scratch, 'cut-off.tar')
    writeFileSync(cutOff, readFileSync(copy).subarray(0, 20_000_000))
    writeFileSync(join(scratch, 'empty.tar'), '')
    writeFileSync(join(scratch, 'text.tar'), 'not a copy')
    for (const name of ['cut-off.tar', 'empty.tar', 'text.tar']) {
      const target = join(scratch, name.replace('.tar', ''))
      await expect(restoreDatabase(join(scratch, name), target)).rejects.toThrow('is not a copy that can be restored')
      expect(existsSync(join(target, 'records'))).toBe(false)
    }
  })

  test('what the published package begins with is what a new database would be', async () => {
    const prepared = join(scratch, 'records.tar.zst')
    const program = new URL('../../../../scripts/prepare-records.ts', import.meta.url).pathname
    execFileSync(process.execPath, ['--conditions=@bureau/source', program, prepared])
    writeFileSync(join(scratch, 'records.tar'), zstdDecompressSync(readFileSync(prepared)))
    const restored = join(scratch, 'restored')
    await restoreDatabase(join(scratch, 'records.tar'), restored)
    const describeAll = async (db: PgliteDatabase): Promise<unknown> => {
      const answers = await Promise.all(DESCRIPTIONS.map((query) => db.run(queryRows, query)))
      await db.close()
      return answers
    }
    const fresh = await describeAll(await PgliteDatabase.open({ folder: join(scratch, 'fresh') }))
    expect(await describeAll(await PgliteDatabase.open({ folder: restored }))).toEqual(fresh)
  })

  test('a first start that was killed half-way is begun again', async () => {
    const half = join(scratch, 'half')
    cpSync(folder, half, { recursive: true })
    rmSync(join(half, 'records'), { recursive: true })
    cpSync(join(folder, 'records', 'base'), join(half, 'records.new', 'base'), { recursive: true })
    const db = await PgliteDatabase.open({ folder: half })
    expect(await db.run(queryRows, 'SELECT count(*)::int AS n FROM runs')).toEqual([{ n: 0 }])
    await db.close()
  })

  test('says so when its thread ends: what was on its way is unknown, what comes later is refused', async () => {
    const db = await open()
    const [first, second] = await Promise.allSettled([db.run(endThread, undefined), db.run(queryRows, 'SELECT 1')])
    expect(await db.failed).toBeInstanceOf(Error)
    for (const lost of [first, second]) expect(lost).toMatchObject({ reason: { name: 'CommitUnknownError' } })
    await expect(db.run(queryRows, 'SELECT 1')).rejects.toMatchObject({ code: 'database_unavailable' })
    await db.close()
    await (await open()).close()
  })

  // V8 says on its standard output what its collector of machine code does, here as often as it can.
  test('machine code that one thread may still run is never freed', () => {
    const program = join(scratch, 'program.mjs')
    writeFileSync(
      program,
      `import { PgliteDatabase } from '${new URL('database.pglite.ts', import.meta.url).href}'
      const db = await PgliteDatabase.open({ folder: '${folder}' })
      console.log('opened')
      await db.close()`,
    )
    const flags = ['--conditions=@bureau/source', '--trace-wasm-code-gc', '--stress-wasm-code-gc']
    const printed = execFileSync(process.execPath, [...flags, program], { encoding: 'utf8' })
    expect(printed.slice(printed.indexOf('opened'))).toBe('opened\n')
  })

  test('a URL of another kind is a set-up error', async () => {
    await expect(openDatabase('mysql://localhost')).rejects.toMatchObject({ name: 'ConfigError' })
  })

  describe('with another process', () => {
    const children: ChildProcess[] = []
    afterEach(() => {
      for (const child of children.splice(0)) child.kill('SIGKILL')
    })

    /** A process that admits and ends runs in the folder and prints each acknowledged one. */
    async function startWriter(masterKey: string) {
      const program = new URL('./write-until-killed.test-program.ts', import.meta.url)
      const args = ['--conditions=@bureau/source', program.pathname, folder, masterKey]
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
      children.push(child)
      const acknowledged: { runId: string; state: string }[] = []
      const lines = createInterface({ input: child.stdout })
      const enough = Promise.withResolvers<void>()
      const exit = once(child, 'exit').then(() => enough.reject(new Error('the writer ended early')))
      exit.catch(() => {})
      enough.promise.catch(() => {})
      lines.on('line', (line) => {
        acknowledged.push(JSON.parse(line) as { runId: string; state: string })
        if (acknowledged.length >= 60) enough.resolve()
      })
      await enough.promise
      return { child, acknowledged, linesRead: once(lines, 'close'), exit }
    }

    test('it is kept out while the other lives, and loses nothing that was acknowledged when the other is killed', async () => {
      const masterKey = randomBytes(32)
      const writer = await startWriter(masterKey.toString('hex'))
      await expect(open()).rejects.toThrow('is in use by another process')

      writer.child.kill('SIGKILL')
      await writer.exit
      await writer.linesRead

      const db = await open()
      const stored = new Map(
        (await db.run(queryRows, 'SELECT id, state FROM runs')).map((row) => [String(row['id']), String(row['state'])]),
      )
      for (const { runId, state } of writer.acknowledged) {
        expect([runId, stored.get(runId)]).toEqual([runId, expect.stringMatching(`^(${state}|running|completed)$`)])
        if (state === 'completed') expect(stored.get(runId)).toBe('completed')
      }
      expect(await db.run(checkInvariants, { settled: false })).toEqual([])

      // The next life goes on with what the killed one left, before it admits anything.
      const store = await equipStore(db, { masterKey: new Uint8Array(masterKey), issuer: 'https://test.example' })
      const ignore = (): void => {}
      const replica = await Replica.start({
        db: store.db,
        version: 't',
        onFenced: ignore,
        onCancels: ignore,
        onError: ignore,
      })
      const left = "SELECT 1 FROM runs WHERE state IN ('reserved','running') AND boot_id <> "
      expect(await db.run(queryRows, `${left}'${replica.bootId}'`)).toEqual([])
      expect(await db.run(checkInvariants, { settled: true })).toEqual([])
      await replica.close()
      await db.close()
      expect(readFileSync(join(folder, 'FORMAT'), 'utf8')).toContain('pglite')
    })
  })
})

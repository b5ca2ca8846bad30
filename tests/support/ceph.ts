import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { freePort } from './free-port.ts'
import { endWithUs } from '../faults/guard.ts'
import { accepts } from '../faults/own-servers.ts'
import { eventually } from '../faults/plan.ts'

/** An S3 service that hosts sell, as small as it can be: one monitor, one object store in memory, one gateway. */
export type Ceph = AsyncDisposable & {
  readonly endpoint: string
  readonly bucket: string
  readonly accessKey: string
  readonly secretKey: string
}

/** Whether this machine has the programs; Debian's packages are `ceph-mon`, `ceph-osd` and `radosgw`. */
export const HAS_CEPH = ['ceph-mon', 'ceph-osd', 'radosgw'].every((name) => spawnSync(name, ['--version']).status === 0)

const START_MS = 60_000
const BUCKET = 'bureau-test'

/** @throws Error with what a program printed. */
export async function startCeph(): Promise<Ceph> {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-ceph-'))
  const [monitorPort, port] = [await freePort(), await freePort()]
  const running = new Set<ChildProcess>()
  let isStopping = false
  const inFolder = (name: string): string => path.join(folder, name)
  const clusterId = randomUUID()
  writeFileSync(inFolder('ceph.conf'), settings({ folder, clusterId, monitorPort, port }))
  for (const name of ['mon', 'osd', 'gateway']) mkdirSync(inFolder(name))

  const run = (command: string, ...args: readonly string[]): Promise<void> => runProgram(command, args, folder)
  const serve = (command: string, ...args: readonly string[]): void => {
    if (isStopping) return
    const child = spawn(command, ['-c', 'ceph.conf', '-f', ...args], { cwd: folder, stdio: 'ignore' })
    running.add(child)
    const hasEnded = endWithUs(child.pid!)
    child.once('exit', () => {
      hasEnded()
      running.delete(child)
      // The monitor may have been too young for it.
      setTimeout(serve, 200, command, ...args)
    })
  }
  const stop = async (): Promise<void> => {
    isStopping = true
    await Promise.all([...running].map(end))
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await run('ceph-authtool', '--create-keyring', 'keyring', '--gen-key', '-n', 'mon.', '--cap', 'mon', 'allow *')
    // The newer protocol of its parts, v2, asks the gateway for a login even so.
    await run('monmaptool', '--create', '--addv', 'a', `[v1:127.0.0.1:${monitorPort}]`, '--fsid', clusterId, 'monitors')
    const first = ['--mkfs', '-i', 'a', '--monmap', 'monitors', '--keyring', 'keyring']
    await run('ceph-mon', '-c', 'ceph.conf', ...first)
    serve('ceph-mon', '-i', 'a')

    const storeId = randomUUID()
    const addStore = (): Promise<boolean> => succeeds(run('ceph', '-c', 'ceph.conf', 'osd', 'new', storeId))
    if (!(await eventually(addStore, START_MS))) throw new Error('The monitor takes no object store.')
    await run('ceph-osd', '-c', 'ceph.conf', '-i', '0', '--mkfs', '--osd-uuid', storeId)
    serve('ceph-osd', '-i', '0')

    const [accessKey, secretKey] = [randomUUID(), randomUUID()]
    const user = ['--uid=bureau', '--display-name=Bureau', `--access-key=${accessKey}`, `--secret-key=${secretKey}`]
    await run('radosgw-admin', '-c', 'ceph.conf', '-n', 'client.gateway', 'user', 'create', ...user)
    serve('radosgw', '-n', 'client.gateway')
    if (!(await eventually(() => accepts(port), START_MS))) throw new Error('The gateway does not listen.')

    const endpoint = `http://127.0.0.1:${port}`
    const credentials = { accessKeyId: accessKey, secretAccessKey: secretKey }
    const client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true, credentials })
    await client.send(new CreateBucketCommand({ Bucket: BUCKET }))
    client.destroy()
    return { endpoint, bucket: BUCKET, accessKey, secretKey, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Place = {
  readonly folder: string
  readonly clusterId: string
  readonly monitorPort: number
  readonly port: number
}

/** No logs, no login between its own parts, one copy of everything, and a full disk is no reason to stop. */
const settings = ({ folder, clusterId, monitorPort, port }: Place): string => `[global]
fsid = ${clusterId}
mon_host = v1:127.0.0.1:${monitorPort}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_objectstore = memstore
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_crit = 0
mon_data = ${folder}/mon
osd_data = ${folder}/osd
run_dir = ${folder}
log_file = /dev/null
mon_cluster_log_file = /dev/null
[client.gateway]
rgw_data = ${folder}/gateway
rgw_frontends = beast endpoint=127.0.0.1:${port}
keyring = ${folder}/keyring
`

async function runProgram(command: string, args: readonly string[], cwd: string): Promise<void> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'ignore', 'pipe'], timeout: START_MS })
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${complaint}`)
}

const succeeds = (work: Promise<void>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  )

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

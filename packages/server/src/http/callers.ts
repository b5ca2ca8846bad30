import { isIP } from 'node:net'
import { FACE_HEADERS } from '@bureau/faces'
import cors from '@fastify/cors'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ConfigError, ServiceError } from '@bureau/protocol'
import { GuessLimiter, isPrivateName, peerOf } from '@bureau/runtime'
import type { ServerConfig } from '../config.ts'
import type { ServerOptions } from '../options.ts'
import { authenticate, readServerTokens } from './authenticate.ts'
import { admitUser } from './users.ts'

/** Pages served by this machine. Browsers take every name that ends with `localhost` for it (RFC 6761, 6.3). */
const LOOPBACK_ORIGIN = /^https?:\/\/(?:(?:[\w-]+\.)*localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i
export const LOOPBACK_HOST = /^(?:(?:[\w-]+\.)*localhost|127(?:\.\d{1,3}){3}|::1)$/i
const MAX_SHOWN_LENGTH = 100

/** Origins as they are, `*` for any, or a pattern. */
type Origins = readonly (string | RegExp)[]

/** Who may call a server, and from which pages. */
export type Callers = {
  /** False: there is no authentication. */
  readonly areKnown: boolean
  /** Pages that may call. */
  readonly origins: Origins
  /** Where to listen. */
  readonly host: string
  /** @throws ServiceError the request has no valid token; without authentication, see {@link localCallers}. */
  readonly check: (request: FastifyRequest) => void | Promise<void>
}

/**
 * With a server token, anybody who has it may call, and with `authenticate` whom that names, from all pages that `corsOrigins` lists (default: all) and over all
 * addresses. Without one, calls come from this machine, unless `host` and `corsOrigins` say otherwise.
 */
export function callersOf(options: ServerOptions, config: Pick<ServerConfig, 'read' | 'wrongKeysPerMinute'>): Callers {
  const { authenticate: authenticateUser, appTokenEnv = 'APP_TOKEN', corsOrigins, host } = options
  if (authenticateUser && options.appTokenEnv !== undefined) {
    throw new ConfigError('appTokenEnv: authenticate says who may call; leave one of the two out.')
  }
  const guesses = new GuessLimiter(config.wrongKeysPerMinute)
  const token = authenticateUser ? undefined : config.read(appTokenEnv)
  const known = { areKnown: true, origins: corsOrigins ?? ['*'], host: host ?? '0.0.0.0' }
  if (authenticateUser) return { ...known, check: (request) => admitUser(request, authenticateUser, guesses) }
  if (token !== undefined) {
    const access = { tokens: readServerTokens(appTokenEnv, token), guesses }
    return { ...known, check: (request) => authenticate(request, access) }
  }
  const origins = corsOrigins ?? [LOOPBACK_ORIGIN]
  return { areKnown: false, origins, host: host ?? '127.0.0.1', check: localCallers(options, origins) }
}

/** @throws ServiceError `origin_not_allowed` the request comes from a page that may not call. */
export function requireOrigin({ headers }: FastifyRequest, origins: Origins): void {
  const { origin } = headers
  if (origin === undefined) return
  const isListed = origins.some((each) =>
    typeof each === 'string' ? each === '*' || each === origin : each.test(origin),
  )
  if (isListed) return
  const message = `Pages of ${shown(origin)} may not call this server. To allow it, name the origin in corsOrigins.`
  throw new ServiceError('origin_not_allowed', { message })
}

/** Whether a page calls that `*` alone lets in, thus without what its browser holds for this server. */
export function isStrangersPage({ headers: { origin }, host }: FastifyRequest, origins: Origins): boolean {
  return origin !== undefined && !origins.includes(origin) && !isPageOf(host, origin)
}

const isPageOf = (host: string | undefined, origin: string | undefined): boolean =>
  origin === `http://${host}` || origin === `https://${host}`

/** Lets pages of these origins call. Comes before anything else, so that refusals and failures carry the headers too. */
export async function allowOrigins(app: FastifyInstance, origins: Origins): Promise<void> {
  const any = origins.includes('*')
  const areListed = origins.every((origin) => typeof origin === 'string')
  await app.register(cors, {
    origin: any ? '*' : [...origins],
    credentials: areListed && !any,
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
    maxAge: 600,
    // OPTIONS requests that ask for nothing are answered like the others, not with a text of the library's.
    strictPreflight: false,
    optionsSuccessStatus: 200,
    exposedHeaders: FACE_HEADERS,
  })
}

/**
 * Protects a server without a token from the pages that its users visit.
 *
 * Browsers let every page send requests to this machine and to the network around it. A page of a foreign origin is
 * refused by its origin. A page can also point a domain name of its own here after it was loaded (DNS rebinding), which
 * makes it a page of this server; then `Host` is that name. So the host must be a loopback name or address, that of
 * `serverUrl`, or `host`. A `host` that is not loopback has been chosen for callers in a network, who are let in by
 * addresses and private names too: rebinding needs a public name. Origins in `corsOrigins` that are not loopback open the
 * server on purpose, so then any host is let in.
 *
 * @returns A check that throws ServiceError `host_not_allowed` or `origin_not_allowed`.
 */
function localCallers(options: ServerOptions, origins: Origins): Callers['check'] {
  const { host, serverUrl, corsOrigins = [], appTokenEnv = 'APP_TOKEN' } = options
  const names = [host, serverUrl && URL.parse(serverUrl)?.hostname].map((name) => name?.toLowerCase())
  const isOpen = corsOrigins.some((origin) => !LOOPBACK_ORIGIN.test(origin))
  const servesNetwork = host !== undefined && !LOOPBACK_HOST.test(host)
  const isOwn = (name: string): boolean =>
    LOOPBACK_HOST.test(name) || names.includes(name) || (servesNetwork && (isIP(name) !== 0 || isPrivateName(name)))
  return (request) => {
    const given = request.headers.host
    const url = URL.parse(`http://${given}`)
    const isOwnName = given === undefined || (url !== null && isOwn(peerOf(url).host))
    if (!isOwnName && !isOpen) {
      const reason = `This server requires no token and does not answer as ${shown(given)}.`
      const message = `${reason} Set ${appTokenEnv}, or name the address in serverUrl or the calling pages in corsOrigins.`
      throw new ServiceError('host_not_allowed', { message })
    }
    const { origin } = request.headers
    if (!isOwnName || !isPageOf(given, origin)) requireOrigin(request, origins)
  }
}

function shown(text: string): string {
  return JSON.stringify(text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}…` : text)
}

import { createHash } from 'node:crypto'
import type { Agent } from '@bureau/framework'
import type { FaceAgency } from '../face-host.ts'
import { PROTOCOL_VERSION } from './protocol.ts'
import { INPUT_MODES } from './read-message.ts'

type CardOptions = {
  /** The address under which the caller knows the server, without a slash at its end. */
  readonly baseUrl: string
  /** Of the server. */
  readonly version: string
  /** True: callers need a bearer token. */
  readonly needsToken: boolean
}

const BINDINGS = ['JSONRPC', 'HTTP+JSON']

/** The card of an agency (specification 4.4.1), made of what its agents say of themselves to people. */
export function agentCard({ name, agency }: FaceAgency, { baseUrl, version, needsToken }: CardOptions): object {
  const url = `${baseUrl}/a2a/${encodeURIComponent(name)}`
  return {
    name: agency.name,
    description: describe(agency.entryPoint),
    supportedInterfaces: BINDINGS.map((protocolBinding) => ({
      url,
      protocolBinding,
      protocolVersion: PROTOCOL_VERSION,
    })),
    version,
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: false },
    ...(needsToken && {
      securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
      securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    }),
    defaultInputModes: INPUT_MODES,
    defaultOutputModes: ['text/plain', 'application/json'],
    skills: [skillOf(name, agency.entryPoint)],
  }
}

function skillOf(agency: string, agent: Agent): object {
  const { name, conversationStarters: examples } = agent
  return { id: agency, name, description: describe(agent), tags: [agency], ...(examples.length > 0 && { examples }) }
}

/** A card must say something. */
const describe = ({ name, description }: Agent): string => description || `Talks to ${name}.`

/** Names the content of a card, so that clients need not fetch again what they have. */
export function cardTag(card: object): string {
  return `"${createHash('sha256').update(JSON.stringify(card)).digest('base64url').slice(0, 22)}"`
}

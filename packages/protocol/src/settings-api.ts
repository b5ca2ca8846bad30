import { z } from 'zod'
import { Time } from './platform-fields.ts'

/** What a server was started with, as its operator or owner may see it. Nothing in it is secret. */

const Limit = z
  .object({
    name: z.string().describe('The option or variable that changes it.'),
    about: z.string(),
    value: z.number(),
    unit: z.enum(['bytes', 'milliseconds', 'seconds', 'runs', 'requests', 'attempts']),
  })
  .meta({ id: 'SettingsLimit' })
export type SettingsLimit = z.output<typeof Limit>

const Feature = z
  .object({ name: z.string().describe('The option or variable that switches it.'), about: z.string(), on: z.boolean() })
  .meta({ id: 'SettingsFeature' })
export type SettingsFeature = z.output<typeof Feature>

const settings = {
  version: z.string(),
  limits: z.array(Limit).describe('In force in the process that answers.'),
  features: z.array(Feature),
}

export const ServerSettings = z
  .object({
    ...settings,
    egress: z
      .object({
        allow: z.array(z.string()).describe('Hosts and networks besides public addresses that callers may name.'),
        deny: z.array(z.string()).describe('Addresses that are never called.'),
      })
      .describe('Where the server connects to on behalf of callers.'),
  })
  .meta({ id: 'ServerSettings' })
export type ServerSettings = z.output<typeof ServerSettings>

const Replica = z
  .object({
    id: z.string(),
    state: z
      .enum(['live', 'draining', 'gone', 'dead'])
      .describe('draining: it takes no new runs; gone: it has ended by itself; dead: it was given up.'),
    version: z.string().nullable(),
    startedAt: Time,
    heartbeatAt: Time.describe('When it last said that it lives.'),
    activeRuns: z.int(),
    answers: z.boolean().describe('True: it is the one that answers this request.'),
  })
  .meta({ id: 'Replica' })
export type PlatformReplica = z.output<typeof Replica>

export const PlatformSettings = z
  .object({
    ...settings,
    egress: z
      .object({
        exceptions: z.int().describe('How many hosts and networks besides public addresses callers may name.'),
        attachmentPorts: z.array(z.int()).describe('Ports that URLs of attachments may have.'),
      })
      .describe('Where the platform connects to on behalf of callers.'),
    replicas: z
      .array(Replica)
      .describe('The processes of the platform: those that run, and those that ended within a day.'),
  })
  .meta({ id: 'PlatformSettings' })
export type PlatformSettings = z.output<typeof PlatformSettings>

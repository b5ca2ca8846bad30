import type { FastifyRequest } from 'fastify'

const MIN_LENGTH = 6
const MAX_TEXTS = 200

/** Keys as providers write them, and bearer tokens. */
const KEYS = /\b(?:sk|pk|key|api)-[\w-]{8,}|\bbearer +[^\s"',;]+/gi

/**
 * Takes out of a text the keys of a request, what its user has said, and whatever looks like a key.
 *
 * Errors of tools and providers quote such things, so this looks at the text itself.
 */
export function scrubberOf(request: FastifyRequest): (text: string) => string {
  let known: readonly string[] | undefined
  return (text) => {
    const secrets = known ?? textsOf(request)
    if (request.body !== undefined) known = secrets
    const scrubbed = secrets.reduce((rest, secret) => rest.replaceAll(secret, '[redacted]'), text)
    return scrubbed.replace(KEYS, '[redacted]')
  }
}

function textsOf({ body, headers }: FastifyRequest): string[] {
  const { client_config: config, user_context: context, message } = (body ?? {}) as Record<string, unknown>
  const found: string[] = []
  // What matters most first: a long history could use up the places.
  collect([headers.authorization?.split(' ').at(-1), config, context, message, body], found)
  // Longer ones first: one may be part of another.
  return found.toSorted((a, b) => b.length - a.length)
}

function collect(value: unknown, found: string[]): void {
  if (found.length >= MAX_TEXTS) return
  if (typeof value === 'string') {
    if (value.length >= MIN_LENGTH) found.push(value)
  } else if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) collect(member, found)
  }
}

import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'

/**
 * Reads variables as a schema says; empty values count as absent.
 *
 * @throws ConfigError one line for each variable that is not fit: its name, and what it must be.
 */
export function readEnvironment<Schema extends z.ZodObject>(
  schema: Schema,
  environment: NodeJS.ProcessEnv,
): z.output<Schema> {
  const present = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const parsed = schema.safeParse(present, {
    // What a schema says itself wins over this.
    error: ({ path: [name = ''] = [], code }) => {
      const field = schema.shape[String(name)]
      return field && code !== 'custom' ? mustBe(field, present[String(name)]) : undefined
    },
  })
  if (parsed.success) return parsed.data
  throw new ConfigError(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}.`).join('\n'))
}

/** The value is shown where it cannot be a secret. */
function mustBe(field: z.core.$ZodType, value: string | undefined): string | undefined {
  const {
    type,
    enum: values,
    minimum,
    maximum,
    minLength,
  } = z.toJSONSchema(field, { io: 'input', unrepresentable: 'any' })
  if (type === 'integer') return `must be a whole number from ${minimum} to ${maximum}, not "${value}"`
  if (values) return `must be one of ${values.join(', ')}, not "${value}"`
  return minLength === undefined ? undefined : `must have at least ${minLength} characters`
}

/**
 * A variable with an address that begins as `scheme` says. What is wrong with it is shown by an example, never by the value,
 * which may hold a password.
 */
export function addressSetting(scheme: RegExp, example: string) {
  return z.string().refine((text) => scheme.test(text) && isAddress(text), {
    error: ({ input }) => {
      const isTorn = URL.parse(String(input)) === null && String(input).includes('@')
      return `must be an address like ${example}${isTorn ? ', with # / ? @ of a password as %23 %2F %3F %40' : ''}`
    },
  })
}

/** A folder, as in `pglite:data`, or a host; PostgreSQL may have a socket instead. Of web addresses nobody sends a password. */
function isAddress(text: string): boolean {
  if (!text.includes('://')) return true
  const url = URL.parse(text)
  if (url === null || (/^https?:/.test(text) && url.username + url.password !== '')) return false
  return /:\/\/[^/?#]/.test(text) || url.searchParams.has('host')
}

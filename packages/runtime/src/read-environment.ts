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

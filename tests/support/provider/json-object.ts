export type JsonObject = Readonly<Record<string, unknown>>

export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A field that should be text; `otherwise` when it is not. */
export const stringOr = (value: unknown, otherwise: string): string => (typeof value === 'string' ? value : otherwise)

/** The objects of a JSON array; anything else in it is left out, and anything but an array is empty. */
export const jsonObjects = (value: unknown): readonly JsonObject[] =>
  Array.isArray(value) ? value.filter((entry) => isJsonObject(entry)) : []

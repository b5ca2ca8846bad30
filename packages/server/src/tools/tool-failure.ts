const MAX_CHARACTERS = 500

/** How the agents SDK words the failure of its own tools for the model; why they failed it does not say. */
const SDK_FAILURE = /^An error occurred while running the tool\. Please try again\.(?: Error: (?:Error: )?)?/

/** A tool of the agents SDK that has failed; the SDK hands on no more than this text. */
export class SdkToolFailure extends Error {
  override readonly name = 'SdkToolFailure'
}

/** @throws SdkToolFailure the result is the SDK's word for a failure. */
export function requireSuccess(result: unknown): unknown {
  if (typeof result === 'string' && SDK_FAILURE.test(result)) throw new SdkToolFailure(result.replace(SDK_FAILURE, ''))
  return result
}

/**
 * The tool's own message, fit for the caller: one line without the places of files on this machine and without names,
 * passwords and queries in addresses.
 */
export function failureMessage(tool: string, error: unknown): string {
  const line = error instanceof Error ? (error.message.split('\n')[0] ?? '').trim().slice(0, MAX_CHARACTERS * 4) : ''
  if (line === '') return `The tool "${tool}" failed.`
  return line.replace(ADDRESS, shortAddress).replace(FILE_PATH, '$1').slice(0, MAX_CHARACTERS)
}

const ADDRESS = /\b[a-z][a-z0-9+.-]*:\/\/[^\s'"`<>)]+/gi

/** An absolute path; its last step is kept. */
const FILE_PATH = /(?<![\w/.:])(?:[A-Za-z]:)?(?:[\\/][^\s\\/'"`:]+)*[\\/]([^\s\\/'"`:]+)/g

function shortAddress(text: string): string {
  if (!URL.canParse(text)) return text
  const { protocol, host, pathname } = new URL(text)
  return protocol === 'file:' ? pathname : `${protocol}//${host}${pathname}`
}

import { CommandError } from './command-error.ts'

/**
 * Where a server is, as `--url` names it, without slashes at its end.
 *
 * @throws CommandError
 */
export function serverAddress(text: string): string {
  if (!/^https?:\/\//.test(text)) throw new CommandError(`--url: ${text} must begin with http:// or https://.`)
  // A URL takes the next word for a host that is missing.
  if (!/^https?:\/\/[^/]/.test(text) || !URL.canParse(text)) throw new CommandError(`--url: ${text} names no server.`)
  return text.replace(/\/+$/, '')
}

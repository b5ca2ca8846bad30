import { ConfigError } from '@bureau/protocol'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { LogFormat } from './terminal.ts'

export type ListenFlags = { readonly host?: string; readonly port?: number; readonly log?: LogFormat }

/** `--host`, `--port` and `--log`, which win over HOST and PORT. */
export function withListenOptions(command: Command): Command {
  return withAddressOptions(command).addOption(
    new Option('--log <format>', 'how the log is written (default: pretty on a terminal, else json)').choices([
      'json',
      'pretty',
    ]),
  )
}

/** `--host` and `--port`, which win over HOST and PORT. */
export function withAddressOptions(command: Command): Command {
  return command
    .option('--host <address>', 'address to listen on (default: HOST, else 127.0.0.1)')
    .option('--port <number>', 'port to listen on, 0 for a free one (default: PORT, else 8000)', portNumber)
}

/** Where to listen: flags first, then the environment. */
export function readListenOptions(flags: ListenFlags, environment: NodeJS.ProcessEnv): { host: string; port: number } {
  return {
    host: flags.host ?? (environment['HOST'] || '127.0.0.1'),
    port: flags.port ?? portOf(environment['PORT'] || '8000'),
  }
}

function portOf(variable: string): number {
  if (isPort(variable)) return Number(variable)
  throw new ConfigError(`PORT: must be a whole number from 0 to 65535, not "${variable}".`)
}

function portNumber(value: string): number {
  if (isPort(value)) return Number(value)
  throw new InvalidArgumentError('Must be a port from 0 to 65535.')
}

const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) <= 65_535

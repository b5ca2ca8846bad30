import { spawn } from 'node:child_process'
import { Command } from 'commander'
import { checkAddress } from '@bureau/runtime'
import { type ListenFlags, readListenOptions, withListenOptions } from '../listen-options.ts'

/** `bureau dev [file]`: the self-hosted server, started again whenever a source file changes. */
export const devCommand = withListenOptions(new Command('dev'))
  .description('Serve the agencies of a file and start again when it, or what it imports, changes.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .action(async (file: string | undefined, flags: ListenFlags) => {
    // The watcher would wait for a change of the file, which frees no port.
    await checkAddress(readListenOptions(flags, process.env))
    const args = [...(file === undefined ? [] : [file]), ...flagsOf(flags)]
    const child = spawn(process.execPath, [...process.execArgv, '--watch', process.argv[1]!, 'serve', ...args], {
      stdio: 'inherit',
    })
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
    child.on('exit', (code) => process.exit(code ?? 0))
  })

function flagsOf(flags: ListenFlags): string[] {
  return Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])
}

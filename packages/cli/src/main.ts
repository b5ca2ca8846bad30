import { existsSync, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { Command } from 'commander'
import { ConfigError, StartError } from '@bureau/protocol'
import { CommandError } from './command-error.ts'
import { backupCommand, restoreCommand } from './commands/backup.ts'
import { chatCommand } from './commands/chat.ts'
import { devCommand } from './commands/dev.ts'
import { doctorCommand } from './commands/doctor.ts'
import { filesCommand } from './commands/files.ts'
import { initCommand } from './commands/init.ts'
import { keysCommand, ownersCommand } from './commands/owners.ts'
import { platformCommand } from './commands/platform.ts'
import { rotateMasterKeyCommand } from './commands/rotate-master-key.ts'
import { serveCommand } from './commands/serve.ts'
import { startCommand } from './commands/start.ts'
import { unknownSettings } from './unknown-settings.ts'

const CONFIG_EXIT_CODE = 78 // EX_CONFIG of sysexits.h
const WRITE_EXIT_CODE = 74 // EX_IOERR

const bureau = new Command('bureau')
  .description('The open agent server: serve agencies of AI agents over HTTP.')
  .version('0.1.0')
  .addCommand(initCommand)
  .addCommand(startCommand)
  .addCommand(serveCommand)
  .addCommand(platformCommand)
  .addCommand(devCommand)
  .addCommand(chatCommand)
  .addCommand(doctorCommand)
  .addCommand(ownersCommand)
  .addCommand(keysCommand)
  .addCommand(backupCommand)
  .addCommand(restoreCommand)
  .addCommand(filesCommand)
  .addCommand(rotateMasterKeyCommand)
  .hook('preAction', (_bureau, command) => {
    // Servers of `dev` say it themselves, each time `.env` has changed; `doctor` has it among its findings.
    if (command === devCommand || command === doctorCommand) return
    for (const line of unknownSettings(process.env)) console.error(line)
  })

// Whoever reads the output may have seen enough (`bureau doctor | head`), and a disk may be full. Neither keeps a server from
// serving, nor a command from what it does.
for (const output of [process.stdout, process.stderr]) {
  output.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE' || process.exitCode === WRITE_EXIT_CODE) return
    process.exitCode = WRITE_EXIT_CODE
    console.error(`The output cannot be written: ${message}.`)
  })
}

try {
  readEnvironmentFile()
  await bureau.parseAsync()
} catch (error) {
  const isExpected = [ConfigError, StartError, CommandError].some((known) => error instanceof known)
  console.error(isExpected ? (error as Error).message : error)
  // Timers of the module that was to be served would keep a process that can do nothing.
  process.exit(error instanceof ConfigError ? CONFIG_EXIT_CODE : 1)
}

/**
 * What is set already wins. `process.loadEnvFile` does the same, but says that a file that may not be read is not there.
 *
 * @throws ConfigError
 */
function readEnvironmentFile(): void {
  if (!existsSync('.env')) return
  try {
    for (const [name, value] of Object.entries(parseEnv(readFileSync('.env', 'utf8')))) process.env[name] ??= value
  } catch (cause) {
    throw new ConfigError(`The file .env cannot be read: ${(cause as Error).message}.`, { cause })
  }
}

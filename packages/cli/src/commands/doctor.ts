import { Command } from 'commander'
import { examine } from '../doctor/examine.ts'
import { describeFinding } from '../doctor/finding.ts'
import { type ListenFlags, readListenOptions, withAddressOptions } from '../listen-options.ts'

/** `bureau doctor [file]`: whether a server would start here, and its runs succeed. */
export const doctorCommand = withAddressOptions(new Command('doctor'))
  .description('Check that a server would start here: agencies, address, model, database, Redis, disk, clock.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .addHelpText('after', '\nThe exit code is 1 when something is at fault.')
  .action(async (file: string | undefined, flags: ListenFlags) => {
    const readAddress = (environment: NodeJS.ProcessEnv) => readListenOptions(flags, environment)
    for await (const finding of examine({ file, environment: process.env, readAddress })) {
      console.log(describeFinding(finding))
      if (finding.state === 'fault') process.exitCode = 1
    }
  })

import { Command } from 'commander'
import { loadConfig } from '@bureau/server'
import { describePlatform, describeReady } from '../describe-served.ts'
import { type ListenFlags, readListenOptions, withListenOptions } from '../listen-options.ts'
import { loadAgencies } from '../load-agencies.ts'

/** `bureau platform [file]`: the hosted platform alone. */
export const platformCommand = withListenOptions(new Command('platform'))
  .description('Host the agencies of a file for many owners and consumers: the platform alone.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .addHelpText('after', '\nExample:\n  $ DATABASE_URL=postgres://localhost/bureau bureau platform agency.ts')
  .action(async (file: string | undefined, flags: ListenFlags) => {
    const { openPlatformFor, servePlatform } = await import('../open-platform.ts')
    const opened = await openPlatformFor(await loadAgencies(file), loadConfig())
    const { url, credentials } = await servePlatform(opened.app, opened, readListenOptions(flags, process.env))
    const { dataFolder } = opened.platform.config
    console.log([describeReady(url), describePlatform(url, credentials, dataFolder)].join('\n'))
  })

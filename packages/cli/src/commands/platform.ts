import { Command } from 'commander'
import { type Logger, listen } from '@bureau/runtime'
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
    const { ensureFirstOwner, openPlatformFor } = await import('../open-platform.ts')
    const { platform, app } = await openPlatformFor(await loadAgencies(file), loadConfig())
    const { closeMs: drainMs, dataFolder } = platform.config
    const log = app.log as Logger
    const url = await listen(app, { ...readListenOptions(flags, process.env), drainMs, log })
    const credentials = await ensureFirstOwner(platform, url)
    console.log([describeReady(url), describePlatform(url, credentials, dataFolder)].join('\n'))
  })

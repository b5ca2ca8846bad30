import { Command } from 'commander'
import { checkAddress } from '@bureau/runtime'
import { loadConfig } from '@bureau/server'
import { announce } from '../first-screen.ts'
import { PLATFORM_LINKS, serveHomePage } from '../home-page.ts'
import { type ListenFlags, readListenOptions, withListenOptions } from '../listen-options.ts'
import { loadAgencies } from '../load-agencies.ts'
import { readSettings } from '../read-settings.ts'
import { openTerminal } from '../terminal.ts'
import { withPlatform } from '../with-platform.ts'

/** `bureau platform [file]`: the hosted platform alone. */
export const platformCommand = withListenOptions(new Command('platform'))
  .description('Host the agencies of a file for many owners and consumers: the platform alone.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .addHelpText('after', '\nExample:\n  $ DATABASE_URL=postgres://localhost/bureau bureau platform agency.ts')
  .action(async (file: string | undefined, flags: ListenFlags) => {
    const terminal = openTerminal(flags.log, process.env)
    const { loadPlatformConfig, openPlatformFor, servePlatform } = await withPlatform(
      () => import('../open-platform.ts'),
    )
    const module = await loadAgencies(file)
    const { config, address } = readSettings({
      config: loadConfig,
      address: () => readListenOptions(flags, process.env),
      platform: loadPlatformConfig,
    })
    await checkAddress(address) // before a database is made for it
    const opened = await openPlatformFor(module, config, terminal)
    serveHomePage(opened.app, PLATFORM_LINKS)
    const { url, credentials } = await servePlatform(opened.app, opened, address)
    const { dataFolder } = opened.platform.config
    announce(terminal, opened.app, { url, config, platform: { dataFolder, credentials } })
  })

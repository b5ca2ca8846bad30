import { Command } from 'commander'
import { checkAddress } from '@bureau/runtime'
import { createApp, loadConfig } from '@bureau/server'
import { announce } from '../first-screen.ts'
import { PLATFORM_LINKS, serveHomePage, serverLinks } from '../home-page.ts'
import { type ListenFlags, readListenOptions, withListenOptions } from '../listen-options.ts'
import { loadAgencies } from '../load-agencies.ts'
import { readSettings } from '../read-settings.ts'
import { openTerminal } from '../terminal.ts'
import { withPlatform } from '../with-platform.ts'

/** `bureau start [file]`: the self-hosted server and the hosted platform, on one port. */
export const startCommand = withListenOptions(new Command('start'))
  .description('Serve the agencies of a file: the self-hosted server and the hosted platform, on one port.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .addHelpText('after', '\nExample:\n  $ bureau start agency.ts --port 8000')
  .action(async (file: string | undefined, flags: ListenFlags) => {
    const terminal = openTerminal(flags.log, process.env)
    const module = await loadAgencies(file)
    const { loadPlatformConfig, openPlatformFor, servePlatform, sharePort } = await withPlatform(
      () => import('../open-platform.ts'),
    )
    const { config, address, platformConfig } = readSettings({
      config: loadConfig,
      address: () => readListenOptions(flags, process.env),
      platformConfig: loadPlatformConfig,
    })
    await checkAddress(address) // before a database is made for it
    const { drainMs, dataFolder } = platformConfig
    const server = await createApp({ ...module, ...address, drainMs, logDestination: terminal.log }, config)
    serveHomePage(server, [...serverLinks(config), ...PLATFORM_LINKS])
    const opened = await openPlatformFor(module, config, terminal)
    await sharePort(server, opened)
    const { url, credentials } = await servePlatform(server, opened, address)
    announce(terminal, server, { url, config, module, platform: { dataFolder, credentials } })
  })

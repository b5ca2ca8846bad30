import { Command } from 'commander'
import { createApp, loadConfig } from '@bureau/server'
import { describePlatform, describeReady, describeServer } from '../describe-served.ts'
import { type ListenFlags, readListenOptions, withListenOptions } from '../listen-options.ts'
import { loadAgencies } from '../load-agencies.ts'

/** `bureau start [file]`: the self-hosted server and the hosted platform, on one port. */
export const startCommand = withListenOptions(new Command('start'))
  .description('Serve the agencies of a file: the self-hosted server and the hosted platform, on one port.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .addHelpText('after', '\nExample:\n  $ bureau start agency.ts --port 8000')
  .action(async (file: string | undefined, flags: ListenFlags) => {
    const module = await loadAgencies(file)
    const config = loadConfig()
    const address = readListenOptions(flags, process.env)
    const { loadPlatformConfig, openPlatformFor, servePlatform, sharePort } = await import('../open-platform.ts')
    const { drainMs, dataFolder } = loadPlatformConfig()
    const server = await createApp({ ...module, ...address, drainMs }, config)
    const opened = await openPlatformFor(module, config)
    await sharePort(server, opened)
    const { url, credentials } = await servePlatform(server, opened, address)
    const parts = [
      describeReady(url),
      describeServer(url, module, config),
      describePlatform(url, credentials, dataFolder),
    ]
    console.log(parts.join('\n'))
  })

import { Command } from 'commander'
import { createApp, loadConfig } from '@bureau/server'
import { CLOSE_MARGIN_MS, listen, type Logger } from '@bureau/runtime'
import { announce } from '../first-screen.ts'
import { serveHomePage, serverLinks } from '../home-page.ts'
import { type ListenFlags, readListenOptions, withListenOptions } from '../listen-options.ts'
import { loadAgencies } from '../load-agencies.ts'
import { readSettings } from '../read-settings.ts'
import { openTerminal } from '../terminal.ts'

/** `bureau serve [file]`: the self-hosted server. */
export const serveCommand = withListenOptions(new Command('serve'))
  .description('Serve the agencies and tools of a file: the self-hosted server.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .addHelpText('after', '\nExample:\n  $ bureau serve agency.ts --port 8000')
  .action(async (file: string | undefined, flags: ListenFlags) => {
    const terminal = openTerminal(flags.log, process.env)
    const module = await loadAgencies(file)
    const { config, address } = readSettings({
      config: loadConfig,
      address: () => readListenOptions(flags, process.env),
    })
    const app = await createApp({ ...module, ...address, drainMs: DRAIN_MS, logDestination: terminal.log }, config)
    serveHomePage(app, serverLinks(config))
    const url = await listen(app, { ...address, closeMs: DRAIN_MS + CLOSE_MARGIN_MS, log: app.log as Logger })
    announce(terminal, app, { url, config, module })
  })

/** How long open streams may take to finish after a stop signal, in milliseconds. */
const DRAIN_MS = 30_000

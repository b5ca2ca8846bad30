import { Command } from 'commander'
import { loadConfig, runServer } from '@bureau/server'
import { describeReady, describeServer } from '../describe-served.ts'
import { type ListenFlags, readListenOptions, withListenOptions } from '../listen-options.ts'
import { loadAgencies } from '../load-agencies.ts'

/** `bureau serve [file]`: the self-hosted server. */
export const serveCommand = withListenOptions(new Command('serve'))
  .description('Serve the agencies and tools of a file: the self-hosted server.')
  .argument('[file]', 'a module that exports agencies (default: agency.ts)')
  .addHelpText('after', '\nExample:\n  $ bureau serve agency.ts --port 8000')
  .action(async (file: string | undefined, flags: ListenFlags) => {
    const module = await loadAgencies(file)
    const config = loadConfig()
    const server = await runServer({ ...module, ...readListenOptions(flags, process.env) })
    console.log([describeReady(server.url), describeServer(server.url, module, config)].join('\n'))
  })

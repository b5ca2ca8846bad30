// Runs before a server of `bureau dev`, and reports every file that it imports: `--import` names this file.
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'

/** What others have made changes by installing, not by saving. */
const INSTALLED = '/node_modules/'

function report(url: string): void {
  if (url.startsWith('file:') && !url.includes(INSTALLED)) process.send?.(fileURLToPath(url))
}

registerHooks({
  resolve(specifier, context, next) {
    try {
      const resolved = next(specifier, context)
      report(resolved.url)
      return resolved
    } catch (error) {
      // Whoever makes the missing file expects the server to start.
      const missing = /^\.{0,2}\//.test(specifier) ? URL.parse(specifier, context.parentURL) : null
      if (missing) report(missing.href)
      throw error
    }
  },
})

// A server whose supervisor was killed would keep the port for ever.
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
process.channel?.unref()

import { registerHooks } from 'node:module'

/**
 * From now on, this thread resolves the imports between the files of drizzle-orm without a look at its package.json.
 *
 * Node reads that file (180 kB of exports) again for each of some 150 files, which costs a start 0.3 s of CPU and 100 MB for each
 * thread. All of these files are ES modules and name each other by path, so there is nothing to find out. Call it before the
 * platform is imported.
 */
export function quickenStart(): void {
  registerHooks({
    resolve(specifier, context, next) {
      const { parentURL } = context
      const isInside = specifier.startsWith('.') && parentURL?.includes('/node_modules/drizzle-orm/')
      if (!isInside) return next(specifier, context)
      return { url: new URL(specifier, parentURL).href, format: 'module', shortCircuit: true }
    },
  })
}

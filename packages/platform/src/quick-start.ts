import { registerHooks } from 'node:module'

/**
 * Importing this file, before the platform is imported, lets this thread find the files of drizzle-orm without a look at that
 * package's package.json.
 *
 * Node reads it (180 kB of exports) again for each import of one of some 150 files, which costs a start half a second of CPU and
 * 100 MB for each thread. The files of the package are ES modules and name each other by path, so there is nothing to find out;
 * what the platform imports by name is found once for each name.
 */
const PLATFORM = new URL('..', import.meta.url).href
const found = new Map<string, { url: string; format: 'module'; shortCircuit: true }>()

registerHooks({
  resolve(specifier, context, next) {
    const { parentURL = '' } = context
    const isInside = specifier.startsWith('.') && parentURL.includes('/node_modules/drizzle-orm/')
    if (isInside) return { url: new URL(specifier, parentURL).href, format: 'module', shortCircuit: true }
    if (!specifier.startsWith('drizzle-orm') || !parentURL.startsWith(PLATFORM)) return next(specifier, context)
    const known = found.get(specifier) ?? { url: next(specifier, context).url, format: 'module', shortCircuit: true }
    found.set(specifier, known)
    return known
  },
})

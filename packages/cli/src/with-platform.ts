import { globSync } from 'node:fs'
import { CommandError } from './command-error.ts'

/**
 * Loads what needs the platform, which is installed only where somebody wants it: it brings a database.
 *
 * @throws CommandError it is not installed.
 */
export async function withPlatform<Module>(load: () => Promise<Module>): Promise<Module> {
  if (!hasPlatform()) {
    throw new CommandError(`This needs the platform: ${platformInstall()}. Without it there are serve, dev and chat.`)
  }
  await import('@bureau/platform/quick-start')
  return load()
}

export function hasPlatform(): boolean {
  try {
    return import.meta.resolve('@bureau/platform') !== ''
  } catch {
    return false
  }
}

/** How to install it. A project that was made from a checkout has its packages as files, and npm refuses them by their names. */
export function platformInstall(folder = process.cwd()): string {
  const [file] = globSync('packages/bureau-platform-*.tgz', { cwd: folder })
  return `npm install ${file === undefined ? '@bureau/platform' : `./${file}`}`
}

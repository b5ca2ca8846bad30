import { CommandError } from './command-error.ts'

/**
 * Loads what needs the platform, which is installed only where somebody wants it: it brings a database.
 *
 * @throws CommandError it is not installed.
 */
export async function withPlatform<Module>(load: () => Promise<Module>): Promise<Module> {
  if (!hasPlatform()) {
    throw new CommandError(
      'This needs the platform: npm install @bureau/platform. Without it there are serve, dev and chat.',
    )
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

import { createRequire } from 'node:module'
import { ConfigError } from '@bureau/protocol'

/** The error that names the command by which missing packages are installed. */
export function notInstalled(who: string, names: readonly string[], cause: unknown): ConfigError {
  const packages = names.map((name) => `${name}@${testedVersion(name)}`).join(' ')
  return new ConfigError(`${who} packages that are not installed: npm install ${packages}`, { cause })
}

/**
 * Looks for the client of MCP, which is not installed with the framework, because it is large and not everybody has tool servers.
 * Whoever declares one learns so at once, and not from the first run.
 *
 * @throws ConfigError that says what to install.
 */
export function requireMcpClient(): void {
  const name = '@modelcontextprotocol/client'
  try {
    import.meta.resolve(name)
  } catch (cause) {
    throw notInstalled('Tool servers need', [name], cause)
  }
}

/** The versions are in the package's own list of optional peers, and npm refuses others beside it. */
function testedVersion(packageName: string): string {
  const { peerDependencies } = createRequire(import.meta.url)('../package.json') as PackageFile
  return peerDependencies[packageName] ?? 'latest'
}

type PackageFile = { readonly peerDependencies: Readonly<Record<string, string>> }

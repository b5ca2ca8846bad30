import { readFileSync } from 'node:fs'
import { createRequire, findPackageJSON } from 'node:module'
import path from 'node:path'

/** What may bring the agents SDK into an application; with some package managers it is visible to them alone. */
const CARRIERS = ['@openai/agents', '@openai/agents-realtime', '@openai/agents-extensions']

type Wanted = {
  /** The copy that this package has: an absolute path. */
  readonly bundled: string
  /** The version of that copy. No other takes its place. */
  readonly version: string
  /** An entry point of the SDK, such as `.`. */
  readonly entry: string
}

/**
 * The agents SDK: the application's own when it has installed it, otherwise ours.
 *
 * There must be one copy in a process: its classes are told apart by identity, and what it knows of a tool or of a trace
 * is kept in maps of the module.
 *
 * It is loaded by `require`, so that this package can be required too: with a top-level await it could not.
 */
export function loadAgentsCore({ bundled, version, entry }: Wanted): unknown {
  const require = createRequire(import.meta.url)
  const installed = installedEntry(version, entry)
  try {
    return require(installed ?? bundled)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_REQUIRE_ESM_RACE_CONDITION') throw error
    const remedy =
      'Import it before, after, or statically beside @bureau/framework, not by a second import() meanwhile.'
    throw new Error(`${installed} is being imported at the same time. ${remedy}`, { cause: error })
  }
}

function installedEntry(version: string, entry: string): string | undefined {
  for (const manifest of installedManifests()) {
    const read = JSON.parse(readFileSync(manifest, 'utf8'))
    if (read.version === version) return path.join(path.dirname(manifest), read.exports[entry].import)
  }
  return undefined
}

function* installedManifests(): Generator<string> {
  const parents = [import.meta.url, ...CARRIERS.flatMap((name) => findManifest(name, import.meta.url) ?? [])]
  for (const parent of parents) {
    const manifest = findManifest('@openai/agents-core', parent)
    if (manifest) yield manifest
  }
}

/** Where a package is that modules at `from` can import, if they can. */
function findManifest(name: string, from: string): string | undefined {
  try {
    return findPackageJSON(name, from)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined
    throw error
  }
}

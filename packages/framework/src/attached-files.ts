import type { RunError } from '@bureau/protocol'
import type { Agency } from './agency/agency.ts'
import { resolveModel } from './models/resolve-model.ts'
import type { RunEnvironment } from './run/run-setup.ts'
import type { RunControl } from './run/run-control.ts'
import type { RunInput } from './run/run-input.ts'

/** Files of a request that cannot be used. */
export class UnusableFiles extends Error {
  override readonly name = 'UnusableFiles'
  readonly error: RunError
  /** For the log only. */
  readonly detail: string | undefined

  constructor(error: RunError, cause: unknown) {
    super(error.message, { cause })
    this.error = error
    this.detail = (cause as { detail?: string } | null)?.detail
  }
}

export type LoadedInput = {
  readonly input: RunInput
  /** To be called when the run has ended. */
  readonly release?: () => void
  /** Why the files could not be read; the run has failed, or was stopped. */
  readonly failure?: { readonly thrown: unknown } | undefined
}

/** Reads the files of a request, if it has any, for the model of the addressed agent. Never throws. */
export async function loadFiles(
  agency: Agency,
  asked: RunInput,
  { control, environment }: { readonly control: RunControl; readonly environment: RunEnvironment },
): Promise<LoadedInput> {
  const { readFiles, ...input } = asked
  if (!readFiles) return { input }
  try {
    const agent = agency.agents.get(input.agent ?? '') ?? agency.entryPoint
    const service = resolveModel(agent, input.clientConfig ?? {}, environment.models).files
    const read = await readFiles(service, control.signal)
    if ('refused' in read) throw new UnusableFiles(read.refused, read.cause)
    const { release, codeFiles, ...files } = read
    if (control.signal.aborted) release?.()
    control.signal.throwIfAborted()
    const forCode = codeFiles?.length ? { codeFiles: { files: codeFiles, service } } : {}
    return { input: { ...input, ...files, ...forCode }, ...(release && { release }) }
  } catch (thrown) {
    return { input, failure: { thrown } }
  }
}

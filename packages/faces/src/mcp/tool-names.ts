import type { FaceAgency } from '../face-host.ts'

/** Models take 64 characters, and clients put names of their own in front. */
const MAX_LENGTH = 48

/** The agencies by the names of their tools, `ask_<agency>` in lower case, none of which is `taken`. */
export function agencyTools(
  agencies: readonly FaceAgency[],
  taken: ReadonlySet<string>,
): ReadonlyMap<string, FaceAgency> {
  const tools = new Map<string, FaceAgency>()
  for (const served of agencies) {
    const wanted = `ask_${served.name.toLowerCase().replaceAll(/[^a-z0-9_-]+/g, '_')}`.slice(0, MAX_LENGTH)
    let name = wanted
    for (let number = 2; taken.has(name) || tools.has(name); number++) {
      name = `${wanted.slice(0, MAX_LENGTH - String(number).length - 1)}_${number}`
    }
    tools.set(name, served)
  }
  return tools
}

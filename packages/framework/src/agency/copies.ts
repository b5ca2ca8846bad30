/** Under it, what this package makes names the copy that has made it. Every copy knows the same symbol. */
export const COPY = Symbol.for('@bureau/framework')

/** This copy: a package that is installed twice has two, whose classes know nothing of each other. */
export const THIS_COPY = import.meta.url.replace(/\/(?:dist|src)\/agency\/[^/]+$/, '').replace(/^file:\/\//, '')

/** What is wrong with an agent or an agency that another copy of this package has made, and what helps; else undefined. */
export function otherCopy(value: unknown): string | undefined {
  const copy: unknown = typeof value === 'object' && value !== null && COPY in value ? value[COPY] : THIS_COPY
  if (copy === THIS_COPY) return undefined
  return (
    `is made by another copy of @bureau/framework, in ${String(copy)}; in use is the one in ${THIS_COPY}. ` +
    'Install @bureau/cli in the project itself, with the same version; "npm dedupe" leaves one copy'
  )
}

import { basename } from 'node:path/posix'
import { classifySource, decodePercent } from './classify-source.ts'
import { extensionOf } from './file-types.ts'

/** `file_urls` of a request: names to sources, or a list of sources. A source is a URL or an absolute local path. */
export type AttachmentSources = Readonly<Record<string, string>> | readonly string[]

export type NamedSource = { readonly name: string; readonly source: string }

/** Gives every source a name, in the order of the request; for a list the last part of each path, made unique. */
export function nameAttachments(sources: AttachmentSources): NamedSource[] {
  if (!isList(sources)) return Object.entries(sources).map(([name, source]) => ({ name, source }))
  const taken = new Set<string>()
  return sources.map((source) => {
    const name = uniqueName(baseNameOf(source), taken)
    taken.add(name)
    return { name, source }
  })
}

/** The path of a remote source, percent-decoded; empty when it is not a URL. */
export function remotePathOf(source: string): string {
  return decodePercent(URL.parse(source)?.pathname ?? '')
}

function baseNameOf(source: string): string {
  const classified = classifySource(source)
  const path = classified.place === 'local' ? classified.path : remotePathOf(source)
  return basename(path.replaceAll('\\', '/')) || 'file'
}

function uniqueName(name: string, taken: ReadonlySet<string>): string {
  const extension = extensionOf(name)
  const stem = name.slice(0, name.length - extension.length)
  let unique = name
  for (let count = 2; taken.has(unique); count++) unique = `${stem}-${count}${extension}`
  return unique
}

// Array.isArray does not narrow a readonly array.
function isList(sources: AttachmentSources): sources is readonly string[] {
  return Array.isArray(sources)
}

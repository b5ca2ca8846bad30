import { tool } from '@bureau/framework'
import { z } from 'zod'
import type { AgencyMount, MountFile } from './agency-mount.ts'
import { MOUNT_ROOT, nameInMount, prefixInMount } from './mount-path.ts'
import { readText } from './read-text.ts'
import { searchFiles } from './search-files.ts'

/** What one call may answer, in characters. */
const MAX_OUTPUT_LENGTH = 65_536
const MAX_LINE_LENGTH = 2_000
const NOT_A_PATH = `That is not a path under ${MOUNT_ROOT}/. Use list_files to see the paths.`

/** A tool of an agent, made by `tool()`. */
type MountTool = ReturnType<typeof tool>

/**
 * The tools with which agents look at the files of their integration. They read only.
 *
 * Failures are answered in words; no call costs more than 64 KiB of context, and a search no more than a few seconds.
 */
export function mountTools(mount: AgencyMount): readonly MountTool[] {
  return [listFiles(mount), readFile(mount), searchTool(mount)]
}

function listFiles(mount: AgencyMount): MountTool {
  return tool({
    name: 'list_files',
    description: `Lists files under ${MOUNT_ROOT}/, the files that users have uploaded for this agency.`,
    parameters: z.object({
      path: z.string().optional().describe(`A folder, or the beginning of a path. Default: ${MOUNT_ROOT}/`),
      limit: z.int().min(1).max(1_000).optional().describe('Most files to list. Default 200.'),
    }),
    execute: async ({ path = `${MOUNT_ROOT}/`, limit = 200 }, { signal }) => {
      if (prefixInMount(path) === undefined) return NOT_A_PATH
      const lines: string[] = []
      for await (const file of mount.list(path)) {
        signal?.throwIfAborted()
        if (lines.length === limit)
          return [...lines, 'There are more files. Name a longer path or a higher limit.'].join('\n')
        lines.push(describe(file))
      }
      return lines.join('\n') || `There are no files under ${path}`
    },
  })
}

function describe({ path, sizeBytes, modifiedAt }: MountFile): string {
  return `${path} (${sizeBytes} bytes, ${new Date(modifiedAt).toISOString()})`
}

function readFile(mount: AgencyMount): MountTool {
  return tool({
    name: 'read_file',
    description: `Reads lines of a text file under ${MOUNT_ROOT}/. Of other files it says what they are.`,
    parameters: z.object({
      path: z.string().describe('The whole path, as list_files has it.'),
      offset: z.int().min(1).optional().describe('The first line to read, from 1. Default 1.'),
      limit: z.int().min(1).max(5_000).optional().describe('Most lines to read. Default 500.'),
    }),
    execute: async ({ path, offset = 1, limit = 500 }, { signal }) => {
      if (nameInMount(path) === undefined) return NOT_A_PATH
      const file = await mount.open(path)
      if (!file) return `There is no file ${path}. Use list_files to see the paths.`
      const content = await readText(file, MAX_LINE_LENGTH)
      if (content.kind === 'binary') return `${describe(file)} is not text but ${content.mime}, so it cannot be read.`
      return excerpt(content.lines, { offset, limit, signal })
    },
  })
}

type Excerpt = { readonly offset: number; readonly limit: number; readonly signal: AbortSignal | null }

async function excerpt(
  batches: AsyncGenerator<readonly string[], void>,
  { offset, limit, signal }: Excerpt,
): Promise<string> {
  const shown: string[] = []
  let length = 0
  let number = 0
  for await (const lines of batches) {
    signal?.throwIfAborted()
    for (const line of lines) {
      number++
      if (number < offset) continue
      const text = shorten(line)
      if (shown.length === limit || length + text.length > MAX_OUTPUT_LENGTH) {
        return `${shown.join('\n')}\n[The file goes on. Continue with offset ${number}.]`
      }
      shown.push(text)
      length += text.length + 1
    }
  }
  if (shown.length > 0) return shown.join('\n')
  return number === 0 ? '[The file is empty.]' : `[The file has ${number} lines.]`
}

function shorten(line: string): string {
  return line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH).toWellFormed()} [The line goes on.]` : line
}

function searchTool(mount: AgencyMount): MountTool {
  return tool({
    name: 'search_files',
    description: `Searches the text files under ${MOUNT_ROOT}/ line by line.`,
    parameters: z.object({
      query: z.string().min(1).max(200).describe('Text to find within a line. `*` stands for any characters.'),
      path: z.string().optional().describe(`A folder or file to search in. Default: ${MOUNT_ROOT}/`),
      ignore_case: z.boolean().optional().describe('True: capital and small letters are the same. Default true.'),
      limit: z.int().min(1).max(200).optional().describe('Most lines to show. Default 50.'),
    }),
    execute: async ({ query, path = `${MOUNT_ROOT}/`, ignore_case: ignoreCase = true, limit = 50 }, { signal }) => {
      if (prefixInMount(path) === undefined) return NOT_A_PATH
      const found = await searchFiles(mount, { query, path, ignoreCase, limit, signal })
      const lines = found.matches.map(({ path, line, text }) => `${path}:${line}: ${text}`)
      if (found.incomplete) lines.push(`[${found.incomplete}]`)
      return lines.join('\n') || `Nothing found in ${found.files} text files.`
    },
  })
}

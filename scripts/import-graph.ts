/** Which source file imports which: for the checks of the architecture. */
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseSync } from 'vite'

const TEST_FILES = /\.(test|contract|test-[a-z-]+)\.tsx?$|\/testing(\.ts$|\/)/

export type SourceFile = {
  /** In the repository. */
  readonly path: string
  readonly lines: number
  /** Our own files of the same package, types included. */
  readonly imports: readonly string[]
}

/** The sources of all packages under `root`, without what exists for tests. */
export function readSources(root: string): SourceFile[] {
  return globSync('packages/*/src/**/*.{ts,tsx}', { cwd: root })
    .filter((file) => !TEST_FILES.test(file))
    .toSorted()
    .map((file) => {
      const code = readFileSync(path.join(root, file), 'utf8')
      return { path: file, lines: code.split('\n').length - 1, imports: relativeImports(file, code) }
    })
}

function relativeImports(file: string, code: string): string[] {
  const { staticImports, staticExports } = parseSync(file, code).module
  const modules = [
    ...staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...staticExports.flatMap(({ entries }) => entries.map(({ moduleRequest }) => moduleRequest?.value)),
  ]
  const own = modules.filter((module) => module?.startsWith('.'))
  return [...new Set(own.map((module) => path.posix.join(path.posix.dirname(file), module!)))]
}

type Graph = ReadonlyMap<string, ReadonlySet<string>>

export function fileGraph(sources: readonly SourceFile[]): Graph {
  return new Map(sources.map(({ path: file, imports }) => [file, new Set(imports)]))
}

/** `packages/a/src/b` imports `packages/a/src/c`: files that lie directly in `src` join everything and do not count. */
export function folderGraph(sources: readonly SourceFile[]): Graph {
  const graph = new Map<string, Set<string>>()
  for (const { path: file, imports } of sources) {
    const from = folderOf(file)
    for (const to of from === undefined ? [] : imports.map(folderOf)) {
      if (to !== undefined && to !== from) graph.set(from!, (graph.get(from!) ?? new Set()).add(to))
    }
  }
  return graph
}

/** The folder of a package, directly in its `src`; undefined for files that lie there themselves. */
export function folderOf(file: string): string | undefined {
  return /^packages\/[^/]+\/src\/[^/]+(?=\/)/.exec(file)?.[0]
}

/** Everything from which one comes back to itself: Tarjan's strongly connected components of more than one node. */
export function circlesOf(graph: Graph): string[][] {
  const index = new Map<string, number>()
  const low = new Map<string, number>()
  const stack: string[] = []
  const circles: string[][] = []
  const visit = (node: string): void => {
    const mine = index.size
    index.set(node, mine)
    low.set(node, mine)
    stack.push(node)
    for (const next of graph.get(node) ?? []) {
      if (!index.has(next)) visit(next)
      if (stack.includes(next)) low.set(node, Math.min(low.get(node)!, low.get(next)!))
    }
    if (low.get(node) !== mine) return
    const circle = stack.splice(stack.indexOf(node))
    if (circle.length > 1) circles.push(circle.toSorted())
  }
  for (const node of graph.keys()) if (!index.has(node)) visit(node)
  return circles
}
